"""Configuration: what may be said, and what is answered when it is said wrongly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logwatch.config import PATHS, Config, load_config, read_secret
from logwatch.config_problems import models_in
from logwatch.errors import ConfigError

CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"

BAD = {
    "bad-unknown-option": ["2:1: unknown option `http.lisen`; did you mean `listen`?"],
    "bad-unknown-section": ["1:1: unknown option `spekulation`; did you mean `speculation`?"],
    "bad-band-upside-down": ["1:1: `band[1]`: band of `target_verify`: low 21ms is above high 17ms"],
    "bad-durations": [
        '3:1: `band[1].low`: 17 has no unit; write it as text with one, such as "19ms"',
        "4:1: `band[1].high`: '21 parsecs' is not a duration; write a number and a unit, such as 19ms, 30s or 7d",
    ],
    "bad-two-sources-in-one": ["1:1: `source[1]`: a source needs either `path` or `journal`"],
    "bad-toml": [
        "1:6: not valid TOML: expected ']' at the end of a table declaration; see `logwatch check --help` for an example"
    ],
    "bad-addresses": [
        "5:1: `http.listen`: 'here' is not HOST:PORT",
        "2:1: `alert[1].webhook`: 'ftp://x' is not an http or https address",
    ],
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("http = 3", "`http`: a table is expected: write [http]", id="a number for a table"),
        pytest.param(
            "source = 3", "`source`: tables are expected: write [[source]]", id="a number for tables"
        ),
        pytest.param(
            "[source]\npath = 'a'",
            "`source`: tables are expected: write [[source]]",
            id="one table for several",
        ),
        pytest.param(
            "band = [3]", "`band[1]`: a table is expected: write [[band]]", id="a number among tables"
        ),
        pytest.param(
            "[[alert]]\ncommand = 'page'",
            '`alert[1].command`: a list is expected, such as ["a", "b"]',
            id="text for a list",
        ),
        pytest.param("[[source]]\npath = ''", "`source[1].path`: must not be empty", id="a path of nothing"),
        pytest.param(
            "[[band]]\nphase = '--'\nlow = '1ms'\nhigh = '2ms'",
            "`band[1].phase`: '--' is no name of a phase",
            id="a phase of nothing",
        ),
        pytest.param(
            "[follow]\ninterval = '0s'", "`follow.interval`: input should be greater than 0", id="no pause"
        ),
    ],
)
def test_a_wrong_shape_is_told_in_the_words_of_the_file(tmp_path, text, said):
    """Not in Python's: who writes TOML knows tables and lists."""
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_config(tmp_path / "c.toml", {})


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("bad-*.toml")))
def test_each_bad_configuration_names_every_problem(name):
    """What is wrong, in which line, and what to try: all of it at once."""
    path = CONFIGS / f"{name}.toml"
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).splitlines() == [f"{path}:{line}" for line in BAD[name]]


def test_a_good_configuration_is_read_whole():
    """Every option of the contract's example arrives, in seconds."""
    config = load_config(CONFIGS / "good.toml", {})
    band = config.band[0]
    assert (band.low, band.high, band.open_after, band.resolve_after) == (0.018, 0.0205, 3, 5)
    assert band.when == {"batch_size": "1", "num_steps": 2}
    assert config.history.keep == 30 * 86400
    assert [source.journal for source in config.source] == [None, "sglang.service"]
    assert config.alert[1].command == ("/usr/local/bin/page",)


def test_a_phase_may_be_written_as_the_log_has_it(tmp_path):
    """`Target verify` is `target_verify`: else its band would hold for nothing, and nobody would know."""
    (tmp_path / "c.toml").write_text("[[band]]\nphase = 'Target verify'\nlow = '17ms'\nhigh = '21ms'\n")
    [band] = load_config(tmp_path / "c.toml", {}).band
    assert band.phase == "target_verify"


def test_no_configuration_is_a_configuration(tmp_path, monkeypatch):
    """The default band is the tuned ~19 ms: 17 to 21 ms, three samples to open, five to resolve."""
    monkeypatch.chdir(tmp_path)
    (band,) = load_config(None, {}).band
    assert (band.phase, band.low, band.high, band.open_after, band.resolve_after) == (
        "target_verify",
        0.017,
        0.021,
        3,
        5,
    )


RELATIVE = """
[[source]]
path = "logs/*.log"
[[source]]
path = "-"
[[source]]
path = "/var/log/sglang.log"
[http]
web_config = "web.yml"
[[alert]]
webhook_file = "hook"
bearer_token_file = "../token"
[[alert]]
command = ["./page"]
[grammars]
directories = ["grammars", "/opt/grammars"]
"""


def test_paths_of_the_file_are_relative_to_its_folder(tmp_path, monkeypatch):
    """Wherever the daemon runs; standard input and programs are no paths, and the environment is not in the file."""
    folder, elsewhere = tmp_path / "etc", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "logwatch.toml").write_text(RELATIVE)
    monkeypatch.chdir(elsewhere)
    config = load_config(Path("../etc/logwatch.toml"), {})
    assert [source.path for source in config.source] == ["../etc/logs/*.log", "-", "/var/log/sglang.log"]
    assert config.http.web_config == Path("../etc/web.yml")
    assert (config.alert[0].webhook_file, config.alert[0].bearer_token_file) == (
        Path("../etc/hook"),
        Path("../etc/../token"),
    )
    assert config.alert[1].command == ("./page",)
    assert config.grammars.directories == (Path("../etc/grammars"), Path("/opt/grammars"))
    environment = {"LOGWATCH_HTTP__WEB_CONFIG": "web.yml", "LOGWATCH_CONFIG": "../etc/logwatch.toml"}
    assert load_config(None, environment).http.web_config == Path("web.yml")


def test_every_path_of_the_configuration_is_known_as_one():
    """A new key that takes a path joins the rule: `PATHS` names all of them, and no other."""
    paths = set()
    for section, field in Config.model_fields.items():
        for model in models_in(field.annotation):
            paths |= {
                (section, key) for key, of in model.model_fields.items() if "Path" in str(of.annotation)
            }
    assert paths | {("source", "path")} == {(section, key) for section, keys in PATHS.items() for key in keys}


def test_a_path_of_a_wrong_type_is_named(tmp_path):
    """Numbers and tables where a path belongs are told as such."""
    (tmp_path / "c.toml").write_text("source = 3\n[http]\nweb_config = 4\n[grammars]\ndirectories = [5]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.toml", {})
    assert [problem.what.partition(":")[0] for problem in caught.value.problems] == [
        "`source`",
        "`http.web_config`",
        "`grammars.directories[1]`",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        pytest.param(
            "LOGWATCH_HTTP__LISTEN", "0.0.0.0:1", lambda c: c.http.listen == "0.0.0.0:1", id="plain text"
        ),
        pytest.param("LOGWATCH_HISTORY__KEEP", "7d", lambda c: c.history.keep == 604800, id="a duration"),
        pytest.param(
            "LOGWATCH_SPECULATION__BASELINE_TOKENS_PER_SECOND",
            "82.2",
            lambda c: c.speculation.baseline_tokens_per_second == 82.2,
            id="a number",
        ),
        pytest.param(
            "LOGWATCH_HTTP__ENABLE_RELOAD", "true", lambda c: c.http.enable_reload is True, id="a boolean"
        ),
    ],
)
def test_every_scalar_can_be_overridden_by_the_environment(variable, value, read):
    """`LOGWATCH_SECTION__KEY` wins over the file."""
    assert read(load_config(CONFIGS / "good.toml", {variable: value}))


def test_an_unknown_variable_is_an_error_too():
    """A mistyped override must not be ignored in silence."""
    with pytest.raises(ConfigError, match="did you mean `listen`"):
        load_config(CONFIGS / "good.toml", {"LOGWATCH_HTTP__LISEN": "x:1"})


def test_the_file_is_looked_for_in_the_contracts_order(tmp_path, monkeypatch):
    """`--config`, then `$LOGWATCH_CONFIG`, then the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, port in (("given", 1), ("named", 2), ("logwatch", 3)):
        (tmp_path / f"{name}.toml").write_text(f'[http]\nlisten = "h:{port}"\n')
    named = {"LOGWATCH_CONFIG": str(tmp_path / "named.toml")}
    assert load_config(tmp_path / "given.toml", named).http.listen == "h:1"
    assert load_config(None, named).http.listen == "h:2"
    assert load_config(None, {}).http.listen == "h:3"


def test_a_configuration_that_is_named_must_exist(tmp_path):
    """A wrong `--config` is an error, not the defaults."""
    with pytest.raises(ConfigError, match="no such configuration file; check --config"):
        load_config(tmp_path / "absent.toml", {})


@pytest.mark.parametrize(
    ("content", "message"), [(" \n", "secret file is empty"), (None, "secret cannot be read")]
)
def test_a_secret_must_be_there(tmp_path, content, message):
    """A missing or empty secret is said before anything runs."""
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_secret(path)


def test_only_what_is_appended_to_loses_its_last_slash():
    """A webhook is called as it is written: some servers answer without the slash by a redirection."""
    config = Config.model_validate(
        {
            "alert": [{"webhook": "https://pager/hook/"}, {"alertmanager": "http://am:9093/am/"}],
            "http": {"external_url": "http://node7:9877/"},
        }
    )
    assert (config.alert[0].webhook, config.alert[1].alertmanager) == (
        "https://pager/hook/",
        "http://am:9093/am",
    )
    assert config.http.external_url == "http://node7:9877"
