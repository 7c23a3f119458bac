"""OpenAI-compatible replicas behind NVIDIA Dynamo, whose workers speak a protocol of its own."""
