"""Hours in the life of a gateway, in minutes: does it leak, mix up answers, or stop answering?"""
