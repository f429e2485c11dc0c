"""Level 3: the systemd unit that matches a configuration: a sidecar that can neither harm nor be harmed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Template

CREDENTIALS = PurePosixPath("/run/credentials/logwatch.service")
"""Where systemd shows the service its secrets; a `*_file` in there gets a `LoadCredential=` line."""

PROGRAM = "/usr/local/bin/logwatch"
CONFIG = "/etc/logwatch/logwatch.toml"

NOTIFY_RELOAD = 253
"""The first systemd that knows `Type=notify-reload`."""


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """What of the configuration and the host enters the unit.

    Attributes:
        program: Absolute path of `logwatch`.
        config: Absolute path of the configuration.
        files: Paths and globs of logs that are followed.
        journal: Whether the journal is followed.
        secrets: Paths of secrets that the configuration names.
        systemd: Version of the systemd that is to run it.
    """

    program: str = PROGRAM
    config: str = CONFIG
    files: tuple[str, ...] = ()
    journal: bool = True
    secrets: tuple[str, ...] = ()
    systemd: int = 257


_UNIT = Template("""\
# Written by `logwatch export unit` from the configuration: change that, and write it anew.
[Unit]
Description=logwatch: knows when speculative decoding has stopped being worth it
Documentation=man:logwatch(1)
# Starts with the server where that is a unit of this name, and never keeps it from starting or stopping.
After=network-online.target sglang.service
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
$type
# Says in the journal what is wrong. A log that is not there yet does not keep the daemon from starting.
ExecStartPre=-$program check --no-network --config $config
ExecStart=$program watch --config $config
Restart=always
RestartSec=2s
TimeoutStartSec=60s
TimeoutStopSec=20s
WatchdogSec=30s
# A log that was rotated and deleted while logwatch restarts can still be read to its end.
FileDescriptorStoreMax=256

# Who it is and what it may touch.
DynamicUser=yes
SupplementaryGroups=$groups
UMask=0077
StateDirectory=logwatch
StateDirectoryMode=0700
RuntimeDirectory=logwatch
ConfigurationDirectory=logwatch
$credentials
# A sidecar never harms the server: it yields processor and disk, and is the first to go when memory is short.
Nice=10
CPUWeight=20
IOWeight=20
MemoryHigh=512M
MemoryMax=1G
TasksMax=128
LimitNOFILE=8192
OOMScoreAdjust=500

# The sandbox.
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
PrivateDevices=yes
PrivateMounts=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectSystem=strict
ProtectHome=$home
ProtectProc=invisible
ProcSubset=pid
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
# AF_UNIX is for the word to systemd and the journal.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
""")


def unit(settings: UnitSettings) -> str:
    """Text of `logwatch.service`."""
    if settings.systemd >= NOTIFY_RELOAD:
        kind = "Type=notify-reload"
    else:
        kind = "Type=notify\nExecReload=/usr/bin/kill -HUP $MAINPID"
    seen = (*settings.files, settings.program, settings.config)
    homes = ("/home/", "/root/", "/run/user/")
    secrets = [path for path in map(PurePosixPath, settings.secrets) if path.parent == CREDENTIALS]
    return _UNIT.substitute(
        type=kind,
        program=settings.program,
        config=settings.config,
        groups="adm systemd-journal" if settings.journal else "adm",
        home="read-only" if any(path.startswith(homes) for path in seen) else "yes",
        credentials="".join(f"LoadCredential={path.name}:/etc/logwatch/{path.name}\n" for path in secrets),
    )
