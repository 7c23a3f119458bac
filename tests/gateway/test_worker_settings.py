"""What is a worker's own among the settings of all."""

from gateway.config import Config
from gateway.workers import of_worker


def settings(**more: object) -> Config:
    return Config.model_validate({"listen": {"port": 8000}, **more})


def test_operators_find_each_worker_at_a_port_of_its_own() -> None:
    assert [of_worker(settings(), worker).listen.admin_port for worker in (0, 2)] == [8001, 8003]
    config = settings(listen={"port": 8000, "admin_port": 9090})
    assert of_worker(config, 1).listen.admin_port == 9091
    assert of_worker(config, 1).listen.port == 8000


def test_no_two_workers_write_one_traffic_log() -> None:
    config = settings(traffic_log={"path": "/var/log/traffic.jsonl", "files": 2})
    logs = [of_worker(config, worker).traffic_log for worker in (0, 1)]
    assert [str(log.path) for log in logs if log] == ["/var/log/traffic-0.jsonl", "/var/log/traffic-1.jsonl"]
    assert {log.files for log in logs if log} == {2}
