"""Object stores: S3 and Google's, each by its own client and a server on loopback."""

import gzip
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.commands.replay import command
from logwatch.errors import SourceError
from logwatch.intake.archive import expand, open_archive

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
BAD = (LOGS / "field_verify_29ms.log").read_bytes()


OBJECTS = {
    "node7/server.log": BAD, "node7/server.log.1.gz": gzip.compress(BAD), "node8/old/server.log": BAD,
    "node8/model.bin": b"\0" * 100, "cut.log.gz": gzip.compress(BAD * 50)[:-9],
}  # fmt: skip


@contextmanager
def s3():
    """Address of a bucket with a few logs."""
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket="logs")
        for key, data in OBJECTS.items():
            client.put_object(Bucket="logs", Key=key, Body=data)
        yield "s3://logs"
        s3fs.S3FileSystem.clear_instance_cache()
        client.close()
    server.stop()


@contextmanager
def gs():
    """The same in Google's store."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server._api._httpd.server_address[1]}")
        # The emulator speaks the store's JSON interface only, not the one that the client asks for fast buckets.
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        import gcsfs

        gcsfs.GCSFileSystem.clear_instance_cache()
        system = gcsfs.GCSFileSystem()
        system.mkdir("logs")
        for key, data in OBJECTS.items():
            system.pipe(f"logs/{key}", data)
        yield "gs://logs"
        gcsfs.GCSFileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(scope="module", params=[s3, gs], ids=["s3", "gs"])
def bucket(request):
    """Address of a bucket with a few logs."""
    with request.param() as address:
        yield address


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
class TestStores:
    def test_addresses_expand_as_paths_do(self, bucket):
        """An object, a folder and a pattern give addresses of objects."""
        assert expand([f"{bucket}/node7/server.log"]) == (f"{bucket}/node7/server.log",)
        assert expand([f"{bucket}/node7"]) == (
            f"{bucket}/node7/server.log", f"{bucket}/node7/server.log.1.gz",
        )  # fmt: skip
        assert expand([f"{bucket}/**/*.log"]) == (
            f"{bucket}/node7/server.log",
            f"{bucket}/node8/old/server.log",
        )

    def test_objects_are_read_and_unpacked(self, bucket):
        """Form by content, as for files."""
        with open_archive(f"{bucket}/node7/server.log.1.gz") as archive:
            assert (archive.form, archive.read(-1), archive.damage) == ("gz", BAD, None)
        with open_archive(f"{bucket}/cut.log.gz") as archive:
            assert (BAD * 50).startswith(archive.read(-1))
            assert str(archive.damage).startswith("cut short")

    @pytest.mark.parametrize(
        ("address", "said"),
        [
            pytest.param("/none.log", "no such object", id="no object"),
            pytest.param("/node7/*.zst", "no logs there", id="no match"),
            pytest.param("-none/x.log", "no such object", id="no bucket"),
        ],
    )
    def test_what_is_not_there_is_named(self, bucket, address, said):
        """One line, as for files."""
        with pytest.raises(SourceError, match=said):
            expand([bucket + address])

    def test_replay_reads_a_bucket(self, bucket):
        """Rotated objects are one stream, others streams of their own."""
        done = CliRunner().invoke(command, [f"{bucket}/node7", f"{bucket}/node8", "--format", "json"])
        assert done.exit_code == 1, done.output
        assert done.stdout.count('"samples": 10') >= 1
        assert done.stdout.count('"stream": "server.log"') == 0
        assert '"stream": "node7/server.log"' in done.stdout


def test_an_unknown_store_is_named():
    """The scheme is said, and nothing is guessed."""
    with pytest.raises(SourceError, match=r"nope://x/y.log: cannot be read: Protocol not known: nope"):
        expand(["nope://x/y.log"])


@pytest.mark.parametrize(
    ("address", "module", "said"),
    [
        pytest.param(
            "gs://b/a.log", "gcsfs", "needs .*gcsfs.*; pip install 'sglang-logwatch[gs]'", id="Google's"
        ),
        pytest.param("s3://b/a.log", "s3fs", "needs .*s3fs.*; pip install 'sglang-logwatch[s3]'", id="S3"),
        pytest.param(
            "s3://b/a.log", "fsspec.core", "needs fsspec; pip install 'sglang-logwatch[s3]'", id="none at all"
        ),
        pytest.param(
            "az://b/a.log", "adlfs", "needs .*adlfs.*; pip install what it names", id="another store"
        ),
    ],
)
def test_a_store_without_its_library_says_what_to_install(monkeypatch, address, module, said):
    """An extra is named where we have one for the store."""
    found_before = import_module("fsspec.registry")._registry
    monkeypatch.delitem(found_before, address.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceError, match=said.replace("[", r"\[").replace("]", r"\]")):
        expand([address])
