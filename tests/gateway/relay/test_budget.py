from gateway.relay.budget import RetryBudget


def spend(budget: RetryBudget) -> bool:
    if budget.left:
        budget.spend()
        return True
    return False


def test_retries_are_a_share_of_the_requests_beyond_the_reserve() -> None:
    budget = RetryBudget(0.25, 2)
    assert [spend(budget) for _ in range(3)] == [True, True, False]
    spent = 0
    for _ in range(100):
        budget.request()
        spent += spend(budget)
    assert spent == 25


def test_what_is_saved_in_quiet_times_is_bounded() -> None:
    budget = RetryBudget(0.5, 3)
    for _ in range(1000):
        budget.request()
    assert sum(spend(budget) for _ in range(100)) == 3
