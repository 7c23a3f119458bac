import pytest

from gateway.l2.names import InProcess, Server, Tags, Tier, kv_rank, tier_folder

CHUNK = "31375f4bc7c57397"


@pytest.mark.parametrize(
    ("naming", "tags", "files"),
    [
        (InProcess("/models/q"), (), ["-SEP-models-SEP-q@1@0@31375f4bc7c57397@bfloat16.data"]),
        (InProcess("q", legacy=True), (), ["vllm@q@1@0@31375f4bc7c57397@bfloat16.data"]),
        (InProcess("q", world=2, dtype="half"), (), [
            "q@2@0@31375f4bc7c57397@half.data",
            "q@2@1@31375f4bc7c57397@half.data",
        ]),
        (InProcess("q"), (("tenant", "a"), ("adapter", "b")),
         ["q@1@0@31375f4bc7c57397@bfloat16@tenant%a@adapter%b.data"]),
        (InProcess("q", layers=28), (("tenant", "a"),), ["q@1@0@31375f4bc7c57397@bfloat16@27@tenant%a.data"]),
    ],
)  # fmt: skip
def test_lmcache_in_the_engine(naming: InProcess, tags: Tags, files: list[str]) -> None:
    assert naming.files(CHUNK, "salt", tags) == files


def test_a_remote_store_that_is_no_file_system_keeps_the_slashes() -> None:
    assert InProcess("/models/q").keys(CHUNK) == ["/models/q@1@0@31375f4bc7c57397@bfloat16"]


def test_lmcaches_server() -> None:
    assert Server("/m/q").files("0845") == ["-SEP-m-SEP-q@0x01000100@0@0845.data"]
    assert Server("q").files("0845", "tenant") == ["q@0x01000100@0@0845@tenant.data"]
    assert Server("q", world=2, groups=2).files("08") == [
        "q@0x02000200@0@08.data",
        "q@0x02000200@1@08.data",
        "q@0x02010201@0@08.data",
        "q@0x02010201@1@08.data",
    ]


def test_a_rank_is_four_bytes() -> None:
    assert kv_rank(8, 5) == 0x08050805


def test_vllms_own_tier_spreads_over_folders() -> None:
    assert Tier("m_0123456789ab", ranks=2).files("dc918a88ff") == [
        "m_0123456789ab_r0/dc9/18_g0/dc918a88ff.bin",
        "m_0123456789ab_r1/dc9/18_g0/dc918a88ff.bin",
    ]


def test_a_tiers_folder_carries_the_fingerprint_of_its_configuration() -> None:
    fields = {
        "model_name": "org/q", "tokens_per_hash": 16, "blocks_per_file": 1, "tp_size": 1, "pp_size": 1, "pcp_size": 1,
        "dcp_size": 1, "dtype": "torch.bfloat16", "kv_cache_groups": [{"tokens_per_block": 16, "layer_names": ["l0"]}],
        "inference_engine": "vllm", "parallel_agnostic": False,
    }  # fmt: skip
    assert tier_folder(fields) == tier_folder(dict(reversed(fields.items())))
    assert tier_folder(fields).startswith("org_q_")
    assert tier_folder({**fields, "tp_size": 2}) != tier_folder(fields)
