"""The shapes of what identifies people and machines. `redact` puts pseudonyms in their place.

Names of containers, services, models and programs stay: a maintainer needs them, and they name
nobody. So do addresses of devices, digests and the hosts that everybody downloads from.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from gpuprobe.lazy_regex import regex

MARKED = regex(r"(?:host|user|ip|mac|email|serial|uuid|ssid)-\d+|\[secret-\d+\]|\ue000\d+\ue001")
"""A pseudonym that is already there."""

# --- people ----------------------------------------------------------------------------------

EMAIL = regex(
    r"(?<![\w.+%-])[\w.+%-]{1,64}(?:@|\s?\[at\]\s?)(?:[A-Za-z0-9-]{1,63}\.){1,8}([A-Za-z]{2,24})(?![\w-])"
)
UNIT_KINDS = frozenset({"service", "socket", "slice", "scope", "target", "timer", "mount", "path"})
"""What stands behind the dot in `user@1000.service`, which is no address."""

LOGIN = regex(
    r"(?<![\w.@+-])(?!(?:dvs-builder|buildd|mockbuild|builduser)@)(?P<user>[a-z_][\w-]{0,31})@(?P<host>[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8})"
    r"(?=:[~/\s]|[ :][~/][^\s\]]{0,200}\]?[$#]|['\"]?[\s)\]]|['\"]?$)"
)
"""`anna@box:~$`, `[anna@box ~]$`, `anna@box:/srv`, `ssh anna@box`."""

_FOLDER = r"[^/\\\s:;,'\"`<>|)\](){}$*]"
HOME = regex(
    rf"(?i)(?:(?<=/home/)|(?<=/users/)|(?<=/homes/)|(?<=/run/media/)|(?<=^/media/)|(?<=[\s'\"=]/media/)"
    rf"|(?<=/var/mail/)|(?<=/spool/cron/)|(?<=/spool/mail/)|(?<=/crontabs/)|(?<=/documents and settings/)"
    rf"|(?<=/scratch/)|(?<=/torchinductor_)|(?<=/pytest-of-)|(?<=/private/home/)|(?<=[a-z]:users/))"
    rf"(?:(?P<initial>\w)/(?=(?P=initial)))?(?P<user>{_FOLDER}+(?:\ [A-Z]{_FOLDER}*(?=[/\\]))?)"
    r"|(?:(?<=\\users\\)|(?<=\\\\users\\\\)|(?<=\\documents and settings\\))(?P<windows>[^\\/:\"<>|\n']{1,64})(?=[\\/\"':]|$|\s)"
    rf"|(?:^|(?<=[\s'\"=:(]))~(?P<tilde>[a-z_][\w-]{{1,31}})(?=/)"
    r"|(?<=[\\/])-(?:home|Users)-(?P<dashed>[a-z][\w.]{1,30})(?=-)"
)
"""The folder that is named after a person, on Linux, macOS, Windows and in WSL."""

USER = regex(
    r"(?:(?<![\w-])(?:SUDO_USER|USERNAME|LOGNAME|USER|PGUSER|SLURM_JOB_USER)['\"]?[=:]\s?['\"]?"
    r"|(?i:(?<![\w-])(?:ruser|logname|user[_-]?name|login[_-]?name|login|owner|user|acct|user id|uid|account|whoami)['\"]?\s?(?:=|:\s)\s?['\"]?)"
    r"|\bfor (?:invalid )?user |\bof user (?=[\w.-]+\.?(?:$|\s?[\n(]))|\b[Ii]nvalid user |\b[ug]id=\d{1,10}\("
    r"|\b(?:Accepted|Failed) \w{1,30}(?:/\w{1,20})? for |\bsudo(?:\[\d+\])?:\s{1,8}(?=[\w.-]+ : )"
    r"|\b(?:CRON|crond)(?:\[\d+\])?: \(|\bsu(?:\[\d+\])?: \(to [\w-]{1,32}\) |\bby (?=[\w.-]{1,32}\(uid=)"
    r"|\bnew (?:user|group): name=|(?<=\s)(?=[a-z_][\w.-]{1,31}:[\w.-]{1,60}/\d{1,8}\(\d{1,7}M\))"
    r"|/tmp/(?:vllm|ray|triton|tmux|screen)[_-](?=[a-z_][\w.-]{1,30}(?:[/'\"\s]|$))"
    r"|(?:^|\n)[-dl][rwxsStT-]{9}[.+@]?\s{1,4}\d{1,6}\s{1,4}|(?:^|\n)(?=[a-z_][\w.-]{1,31}\+?\s{1,12}\d{1,8}\s{1,6}\d{1,4}\.\d\s{1,6}\d{1,3}\.\d\s))"
    r"(?P<user>[A-Za-z_][\w.-]{1,31})(?![\w/\[]|\.\w)"
)
DOMAIN_USER = regex(
    r"(?<![\w\\/:.-])(?P<domain>[A-Z][A-Z0-9-]{1,14})\\{1,2}(?P<user>[a-z][\w.-]{2,31})(?![\w\\])"
)
"""`CORP\\anna`."""

# --- numbers of machines ---------------------------------------------------------------------

UUID = regex(
    r"(?i)(?:(?<![0-9a-z])|(?<=pod))[0-9a-f]{8}([-_])[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}(?![0-9a-z])"
)
ID128 = regex(r"(?i)(?<![0-9a-z])[0-9a-f]{32}(?![0-9a-z])")
MAC = regex(
    r"(?i)(?<![0-9a-f:-])(?:[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5,19}|(?:-[0-9a-f]{2}){5})"
    r"|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})(?![0-9a-z:.-]|\.\d)"
)
INTERFACE = regex(r"(?<![\w])(?:en|wl)x(?P<mac>[0-9a-f]{12})(?!\w)")
GUID = regex(
    r"(?i)\b(?:node|port|system|sys[_ ]image|gid)[_ ]?guid['\"]?\s{0,4}[:=]?\s{0,4}['\"]?(?P<serial>(?:0x)?[0-9a-f]{4}:?[0-9a-f]{4}:?[0-9a-f]{4}:?[0-9a-f]{4})"
)

IPV4 = regex(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
IPV6 = regex(r"(?i)(?<![\w:.])(?=[0-9a-f]{0,4}:[0-9a-f]{0,4}:)[0-9a-f:]{3,39}(?![\w:])")
VERSION_BEFORE = regex(
    r"(?i)(?:version|driver|release|firmware|vbios|bios|cuda|cudnn|nccl|gsp|rev|build|fw|\bv|==|[<>~!]=|@"
    r"|\b(?:nvidia|lib|cu|tensorrt|python|mlnx|ofed|mft)[\w.+-]{0,40})['\"]?[\s:=,(-]{0,40}['\"v]?$"
)
"""Before four numbers that are a version and no address."""

SERIAL = regex(
    r"(?i)(?:(?<![a-z])(?:serial(?:[ _-]?(?:number|num|no\.?))?|(?:id_)?serial(?:_short)?|service ?tag|asset ?tag|s/?n"
    r"|chassis[_ ]?(?:serial|id)|part serial|wwi?d|wwn|iseri?al|oxford_serial|board[_ ]id\b(?=\s*:\s*0x))\b['\"]?\s{0,12}"
    r"(?:[:=]\s{0,12}|(?<=number)\s{1,8}|(?<=number )|(?<=iserial)\s{1,8}\d{0,3}\s)['\"]?)(?P<serial>(?=[\w.-]{0,60}\d)[A-Z0-9][\w.-]{3,60})(?![\w:])"
)
DEVICE_SERIAL = regex(r"(?i)Device Serial Number\s{1,8}(?P<serial>[0-9a-f]{2}(?:-[0-9a-f]{2}){7})")
DISK = regex(
    r"(?i)(?:(?<=/by-id/)(?:nvme|ata|scsi|usb|mmc|dm|md|lvm|wwn)|(?<=[/\s])(?:wwn|eui|nvme-eui|naa))[.-](?P<serial>[\w.:+-]{8,120}?)(?=-part\d|[^\w.:+-]|$)"
)
SSID = regex(
    r"(?i)(?<![a-z])(?:[be]?ssid(?:_name)?|wi-?fi(?: network)?|access point)['\"]?\s{0,4}[:=]?\s{0,4}"
    r"(?:b?(?P<open>['\"“])(?P<quoted>[^'\"”\n]{1,64})['\"”]|(?<=[:=])\s{0,2}(?P<bare>[^\s'\",;)]{2,32})|(?<=[:=] )(?P<spaced>[^\s'\",;)]{2,32}))"
)

# --- names of machines -----------------------------------------------------------------------

_STAMP = (
    r"(?:[^\W\d_]{3,4}\.?\s{1,2}\d{1,2}\s(?:\d{4}\s)?\d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
)
SYSLOG_HOST = regex(
    rf"(?:^|[\s|>])(?:<\d{{1,3}}>1?\s{{0,2}})?{_STAMP}\s{{1,4}}(?P<host>[A-Za-z0-9][\w.-]{{0,200}})\s{{1,4}}"
    r"(?:[\w./()@-]{1,100}(?:\[\d{1,10}\])?:(?:\s|$)|[\w./-]{1,100}\s+(?:\d+|-)\s+\S{1,100}\s+[\[-])"
)
"""The host field of a line of syslog (both forms) or of `journalctl`."""

HOST_FIELD = regex(
    r"(?i)(?<![a-z])(?:_?hostname|nodename|host[ _-]?name|host|node[_ ]?name|node_?list|(?:kubernetes|k8s|my)?_?(?:node|pod)(?:[_ ]?name)?(?=['\"]?\s{0,12}[:=/]\s{0,12}['\"]?[a-z][\w.]{0,60}-[\w-]{0,60}\d|['\"]\s?:\s?['\"][a-z])"
    r"|computer ?name|machine[_ ]?name|fqdn|dns ?name|slurmd_nodename|instance(?=['\"]?=)|kubelet(?=,\s)|pod(?=/)|set hostname to|node(?=/)"
    r"|master[_-]addr(?:ess)?|(?:dist-)?init[_-]addr|rdzv[_-]endpoint|coordinator[_-]address|head[_-]node)"
    r"['\"]?\s{0,8}(?:[:=/,]\s{0,8}|(?<=to )|(?<=to)|(?<=-addr)\s{1,8}|(?<=-endpoint)\s{1,8})[<'\"]{0,2}(?P<host>[A-Za-z0-9][\w.-]{1,200})"
)
UNAME = regex(
    r"(?<![\w-])Linux (?!version )(?P<host>[A-Za-z0-9][\w.-]{0,63}) (?=\d{1,2}\.\d{1,3}[.\w+-]{0,60} #?\d)"
)
"""`uname -a`."""

POD = regex(
    r"(?<![\w-])(?P<host>[a-z][a-z0-9-]{0,80}-(?=[a-z]{0,9}\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5})(?![\w-])"
)
"""A pod of a deployment; Kubernetes leaves vowels out of what it makes up."""

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,62})"
FQDN = regex(
    rf"(?i)(?<![\w./@:-])(?P<host>(?:{_LABEL}\.){{1,8}}(?:cluster\.local|home\.arpa|lan|corp|intranet|localdomain"
    rf"|ts\.net|edu|mil)|(?:{_LABEL}\.){{2,8}}(?:com|org|gov|de|fr|uk|ch|at|nl|cn|jp|ca|au|eu|kr|tw)"
    rf"|(?=[a-z.]{{0,200}}[\d-])(?:{_LABEL}\.){{2,8}}(?:net|io|ai|dev|cloud|us|se|fi|pl|es|ru|br)"
    rf"|(?=[a-z.]{{0,200}}[\d-]|(?:{_LABEL}\.){{2}})(?:{_LABEL}\.){{1,8}}(?:internal|local))(?![\w-]|\.\w|\()"
)
"""A full name of a machine; where programs have names like it, only with a digit or a dash."""

URL_HOST = regex(
    r"(?i)(?<=://)(?:[^/\s@'\"]{0,100}@)?(?P<host>[a-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,8})(?![\w@-])"
)
CLOUD_HOST = regex(r"(?<![\w-])(?P<host>ip(?:-\d{1,3}){4}(?:\.[\w-]{1,63}){0,6})(?![\w-])")
NCCL_HOST = regex(
    r"(?<![\w:/.-])(?P<host>[A-Za-z][\w.-]{0,100}):\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL"
    r""
)
"""What NCCL puts before each line, and how PyTorch names a peer."""

PEER = regex(r"(?:addresses of \(|\[)(?P<host>[A-Za-z][\w.-]{0,100})(?:, |\]:)(?=\d{2,5}\b)")
UNC = regex(r"(?<![\w\\:])\\\\(?P<host>[A-Za-z][\w.-]{1,62})(?=\\[\w$])")

DOMAIN: Final = (
    r"(?:\.[A-Za-z0-9-]{1,63}){0,8}\.(?:com|net|org|edu|gov|io|ai|dev|cloud|local|lan|internal|intranet"
    r"|home|corp|localdomain|arpa|de|fr|uk|ch|at|nl|cn|jp|ca|au|eu)(?![\w-])"
)
"""What may follow a short host name and belongs to it."""

PUBLIC: Final = regex(
    r"(?i)(?:github|gitlab|githubusercontent|huggingface|hf|nvidia|pytorch|python|pypi|pythonhosted|kernel|docker|ghcr"
    r"|quay|nvcr|k8s|kubernetes|google|googleapis|openai|anthropic|vllm|sgl-project|ubuntu|debian|redhat|fedoraproject"
    r"|archlinux|readthedocs|stackoverflow|wikipedia|freedesktop|gnu|apache|w3|json-schema|example|amazonaws|cloudflare"
    r"|systemd|slack|discord|discordapp|telegram|office|microsoft|intel|amd|asus|dell|supermicro|anaconda|conda|npmjs"
    r"|schema|tensorflow|jax|nodejs|rust-lang|mozilla|wandb|modelscope|sqlite)\.(?:com|org|io|co|net|ai|dev|cn|dev|app)"
)
"""Domains that everybody knows, the last two parts of a name; they say nothing about who sends a report."""

NO_HOST = frozenset({"localhost", "localhost.localdomain", "none", "null", "kernel", "true", "false", "unknown", "n", "self",
                     "name", "memory", "cpu", "device", "to", "0.0.0.0", "host", "bridge", "auto", "gateway", "numa",
                     "no_guest_guest", "no_guest_host", "no_user_kernel", "no_user_user"})  # fmt: skip
NO_USER = frozenset(
    "root nobody user users public shared default none null name runner process space mode at and is the"
    " all not with daemon ubuntu system true false unknown admin you mapped id ids error level code data"
    " memory input agent-id limit program space-time group page of in to for from no wheel staff adm video"
    " render systemd assistant tool everyone program-data files lib etc tmp app linuxbrewer".split()
)

TOO_COMMON = frozenset(
    "admin aer april art august bill build bus card chase chip cuda dale data dawn dead debian dev device"
    " docker drew driver engine error faith fedora frank gene given gpu gpus grace grant guy heat hope host"
    " iris jack joy june kernel lane link linux localhost log logs lost main mark mason master max may"
    " memory miles min model nan node nvidia nvme pat page pcie pierce port power process proxy python rank"
    " ray reed rich rod root router rose rusty server skip slot sonny speed stone sue summer system systemd"
    " test torch training triton ubuntu unit user vllm wade ward will worker service time first last left"
    " line head tail temp".split()
)
"""Words that are replaced only where they stand as a name, never all over the text."""


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `text` is, or None; `c10::` and `ad::be` are C++."""
    if ":" in text and "::" not in text and text.count(":") < 7:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if found.version == 6 and text.count(":") < 3 and not _SHORT_IPV6.fullmatch(text):
        return None
    return found


_SHORT_IPV6 = regex(
    r"(?i)(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f])::(?:\d[0-9a-f]{0,3})?"
)


def group(match: re.Match[str], *names: str) -> str | None:
    """The name of the first of these groups that took part."""
    return next((name for name in names if match[name] is not None), None)
