"""Secrets and names of many kinds, planted in the forms in which logs hold them."""

from __future__ import annotations

import base64
import json
import random
import string
from urllib.parse import quote

R = random.Random(7)


def r(n, a=string.ascii_letters + string.digits):
    while True:
        s = "".join(R.choice(a) for _ in range(n))
        if sum(c.isdigit() for c in s) > 1 and any(c.isalpha() for c in s):
            return s


HEXU = "0123456789ABCDEF"
HEXL = HEXU.lower()


def hx(n, up=False):
    return r(n, HEXU if up else HEXL)


def uuid(up=False):
    return "-".join(hx(n, up) for n in (8, 4, 4, 4, 12))


def mac(sep=":", up=False):
    return sep.join(
        hx(2, up) if False else "".join(R.choice(HEXU if up else HEXL) for _ in range(2))
        for _ in range(6)
    )


KINDS = {}


def b64(n):
    return base64.b64encode(R.randbytes(n)).decode()


def planted() -> list[tuple[str, str, tuple[str, ...]]]:
    """Kind, text, and what must not be left of it."""
    out = []

    def add(kind, text, *secrets):
        out.append((kind, text, secrets))

    for flag in (
        "--api-key {}",
        "--api-key={}",
        "--hf-token {}",
        "--hf-token={}",
        "--password '{}'",
        '--auth-token="{}"',
        '["vllm", "serve", "--api-key", "{}", "--port", "1"]',
        "['--api-key', '{}']",
        "--ssl-key-password {} --port 8",
        "--api-key \\\n  {}",
        "Namespace(api_key='{}', port=1)",
        "non-default args: {{'api_key': ['{}'], 'model': 'x'}}",
        "server_args=ServerArgs(model_path='Qwen/Qwen3-8B', api_key='{}', admin_api_key=None)",
    ):
        v = r(18)
        add("argv", flag.format(v), v)
    for t in (
        "mysql -uroot -p{} db",
        "sshpass -p {} ssh x",
        "sshpass -p'{}' ssh x",
        "docker login -u x -p {} reg",
        "redis-cli -h 1 -a {}",
        "curl -u bob:{} https://x",
        "curl --user 'bob:{}' https://x",
        "ldapsearch -x -w {}",
        "ipmitool -I lanplus -U ADMIN -P {} power",
        "openssl rsa -passin pass:{}",
        "wandb login {}",
        "smbclient //s/x -U 'bob%{}'",
    ):
        v = r(14)
        add("tool", t.format(v), v)
    for n in (
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASS",
        "GITHUB_PAT",
        "PGPASSWORD",
        "MYAPP_SECRET",
        "REDIS_AUTH",
        "REGISTRY_PASSWORD",
    ):
        v = r(20)
        add("env", f"{n}={v}", v)
        v = r(20)
        add("env", f"env: PATH=/bin\\n{n}={v}\\nA=1", v)
        v = r(20)
        add("env", f'declare -x {n}="{v}"', v)
        v = r(20)
        add("env", f"environ({{'{n}': '{v}', 'A': '1'}})", v)
        v = r(20)
        add("json", json.dumps(json.dumps({n: v, "a": 1})), v)
        v = r(20)
        add("yaml", f"  {n}: {v}", v)
        v = r(20)
        add("percent", quote(f"{n}={v}", safe=""), v)
    for n in (
        "password",
        "api_key",
        "apiKey",
        "clientSecret",
        "access_token",
        "private_key",
        "auth",
    ):
        v = r(24)
        add("json", json.dumps({n: v}), v)
        v = r(24)
        add("json", json.dumps(json.dumps({n: v})), v)
        v = r(24)
        add("yaml", f"{n}: {v}", v)
        v = r(24)
        add("toml", f'{n} = "{v}"', v)
        v = r(24)
        add("url", f"GET /v1/x?{n}={v}&b=1 HTTP/1.1", v)
        v = r(24)
        add("xml", f"<{n}>{v}</{n}>", v)
    for _name, v in (
        ("hf", "hf_" + r(34)),
        ("openai", "sk-proj-" + r(48)),
        ("anthropic", "sk-ant-api03-" + r(60)),
        ("ghp", "ghp_" + r(36)),
        ("pat", "github_pat_" + r(60)),
        ("glpat", "glpat-" + r(20)),
        ("slack", "xoxb-123456789-" + r(24)),
        ("npm", "npm_" + r(36)),
        ("pypi", "pypi-AgEI" + r(60)),
        ("aws", "AKIA" + r(16, string.ascii_uppercase + string.digits)),
        ("gcp", "AIza" + r(35)),
        ("azure", r(3) + "8Q~" + r(31)),
        ("nvapi", "nvapi-" + r(60)),
        ("jwt", "eyJhbGciOi" + r(20) + ".eyJzdWIi" + r(30) + "." + r(43)),
        ("google", "ya29." + r(60)),
        ("sendgrid", "SG." + r(22) + "." + r(43)),
        ("stripe", "sk_live_" + r(24)),
    ):
        add("shape", f"ValueError: bad token {v}, see docs", v)
        add("shape", f"\x1b[31m{v[:9]}\x1b[0m{v[9:]}\x1b[m", v, v[9:])
        add("shape", f"x\\n{v}\\ny", v)
        w = v[:-12] + r(12)
        add("wrap", f"{w[:-10]}\n{w[-10:]}\n", w[-10:], w[:-10])
    for t in (
        "Authorization: Bearer {}",
        "'Authorization': 'Bearer {}'",
        "authorization: Basic {}",
        '-H "Authorization: Bearer {}"',
        "(b'authorization', b'Bearer {}')",
        "Proxy-Authorization: Basic {}",
        "X-Api-Key: {}",
        "Cookie: session={}; a=b",
        "Set-Cookie: sid={}; HttpOnly",
        "Authorization:\n  Bearer {}",
    ):
        v = r(32)
        add("header", t.format(v), v)
    for t in (
        "https://bob:{}@h.x/r",
        "postgres://u:{}@db/x",
        "redis://:{}@r:6379/0",
        "mongodb+srv://u:{}@c.y/z",
        "https%3A%2F%2Fbob%3A{}%40h",
        "jdbc:oracle:thin:scott/{}@h:1521",
        "Server=x;User Id=sa;Password={};Encrypt=no",
        "AccountName=a;AccountKey={}==;EndpointSuffix=z",
        "git clone https://{}@git.x/r",
        "amqp://g:{}@mq//",
    ):
        v = r(20)
        add("conn", t.format(v), v)
    for p in (
        "X-Amz-Signature",
        "X-Amz-Credential",
        "X-Amz-Security-Token",
        "sig",
        "Signature",
        "X-Goog-Signature",
        "token",
        "key",
    ):
        v = r(40)
        add("presigned", f"https://b.s3.amazonaws.com/o?X-Amz-Date=2026&{p}={v}&z=1", v)
    for h in ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY"):
        lines = [b64(48) for _ in range(4)]
        add("pem", f"-----BEGIN {h}-----\n" + "\n".join(lines) + f"\n-----END {h}-----", *lines)
        lines = [b64(48) for _ in range(4)]
        add(
            "pem",
            f'key: "-----BEGIN {h}-----\\n' + "\\n".join(lines) + f'\\n-----END {h}-----\\n"',
            *lines,
        )
        lines = [b64(48) for _ in range(4)]
        add("pem", f"-----BEGIN {h}-----\n" + "\n".join(lines), *lines)
    lines = b64(200)
    add("ssh", f"ssh-rsa AAAAB3NzaC1yc2E{lines} bob@work", lines, "bob@work")
    for t in (
        "/home/{}/x.log",
        "/Users/{}/x",
        "C:\\Users\\{}\\x",
        "C:\\\\Users\\\\{}\\\\x",
        "/mnt/c/Users/{}/x",
        'File "/home/{}/a.py", line 3',
        "%2Fhome%2F{}%2Fx",
        "\\/home\\/{}\\/x",
        "USER={}",
        "session opened for user {}(uid=1000) by root(uid=0)",
        "sudo: {} : TTY=pts/0 ; PWD=/x ; USER=root ; COMMAND=/bin/x",
        "Accepted publickey for {} from 10.9.8.7 port 22 ssh2",
        "uid=1000({})",
        "/tmp/torchinductor_{}/ab/x.py",
        "/var/home/{}/x",
        "/run/media/{}/USB",
        '"user": "{}"',
        "{}@kestrel9:~$ ls",
        "{}  2201 99.0  1.0 123 456 ?  Sl 10:00 1:00 python",
        "CRON[12]: ({}) CMD (x)",
    ):
        v = "u" + r(7, string.ascii_lowercase + "23456789")
        add("user", t.format(v), v)
    for t in (
        "Apr 02 19:03:38 {} kernel: x",
        '"_HOSTNAME":"{}"',
        "hostname={}",
        "Linux {} 6.8.0-51-generic #52-Ubuntu SMP",
        "Set hostname to <{}>.",
        "KUBERNETES_NODE_NAME={}",
        "root@{}:/srv#",
        "ssh bob@{}",
    ):
        v = "h" + r(7, string.ascii_lowercase + "23456789")
        add("host", t.format(v), v)
    for v in (
        "gpu7.cs.uni-x.edu",
        "vllm-serve-7d9f8b6c5d-x2k4q",
        "ip-10-0-1-23.ec2.internal",
        "node-3.rack.corp",
        "a.b.svc.cluster.local",
        "gpu-node-07.lab.company-x.com",
        "kestrel-3.local",
    ):
        add("host", f"connect to {v} failed", v)
    for v in (
        "10.1.2.3",
        "192.168.77.12",
        "203.0.113.9",
        "fe80::a1:b2c3",
        "2001:db8:1:2:3:4:5:6",
        "FE80::A1:B2C3",
        "fd00::1",
    ):
        add("ip", f"from {v} port 22", v)
        add("ip", f"tcp://{v}:29500" if ":" not in v else f"tcp://[{v}]:29500", v)
    for up in (0, 1):
        for s in ":-":
            v = mac(s, up)
            add("mac", f"link/ether {v} brd", v)
        v = uuid(up)
        add("uuid", f"GPU-{v}", v)
        v = uuid(up)
        add("uuid", f"boot {v} x", v)
        v = uuid(up).replace("-", "")
        add("uuid", f"_MACHINE_ID={v}", v)
        v = uuid(up).replace("-", "_")
        add("uuid", f"kubepods-burstable-pod{v}.slice", v)
        v = hx(40, up)
        add("hex", f"api_key={v}", v)
    for t in (
        "Serial Number : {}",
        "board_serial={}",
        "ID_SERIAL_SHORT={}",
        "usb 1-1: SerialNumber: {}",
        "/dev/disk/by-id/nvme-Samsung_SSD_980_PRO_{}",
        "Chassis Serial: {}",
        "Service Tag: {}",
        '"serial": "{}"',
    ):
        v = "S" + r(11, string.ascii_uppercase + string.digits)
        add("serial", t.format(v), v)
    for t in ("SSID '{}'", 'ssid="{}"', 'ESSID:"{}"', "SSID: {}"):
        v = "Net" + r(6)
        add("ssid", t.format(v), v)
    for t in ("{}@uni-x.org", "<{}@mail.uni-x.co.uk>", "mailto:{}%40uni-x.org"):
        v = "ann." + r(5)
        add("email", t.format(v), v)
    return out


FURTHER = [
    ('curl -H "X-Auth-Token: zQ9w3k2LmN81" https://a.b/c', "zQ9w3k2LmN81"),
    ("requests.get(url, auth=('bob', 'hunter2pass'))", "hunter2pass"),
    ("requests.get(url, headers={'x-api-key': b'k3y-9fj2kd83jd'})", "k3y-9fj2kd83jd"),
    ("password is hunter2secret9", "hunter2secret9"),
    ("Incorrect API key provided: 9fj2kd83jdk20dk3.", "9fj2kd83jdk20dk3"),
    ('export HF_TOKEN="my token 77"', "token 77"),
    ("set OPENAI_API_KEY=qwerty77asdf", "qwerty77asdf"),
    ('$env:HF_TOKEN = "qwerty77asdf"', "qwerty77asdf"),
    ('os.environ["HF_TOKEN"] = "qwerty77asdf"', "qwerty77asdf"),
    ("- name: HF_TOKEN\n  value: qwerty77asdf", "qwerty77asdf"),
    ('{"name": "HF_TOKEN", "value": "qwerty77asdf"}', "qwerty77asdf"),
    ('{"name":"OPENAI_API_KEY","value":"qwerty77asdf"}', "qwerty77asdf"),
    ("EnvVar(name='DB_PASSWORD', value='qwerty77asdf')", "qwerty77asdf"),
    ("docker run -e HF_TOKEN=qwerty77asdf vllm", "qwerty77asdf"),
    ("docker run -eHF_TOKEN=qwerty77asdf vllm", "qwerty77asdf"),
    ("docker run --env=HF_TOKEN=qwerty77asdf vllm", "qwerty77asdf"),
    ('systemd: Environment="HF_TOKEN=qwerty77asdf"', "qwerty77asdf"),
    ("Environment=HF_TOKEN=qwerty77asdf", "qwerty77asdf"),
    ("A=1\0HF_TOKEN=qwerty77asdf\0B=2", "qwerty77asdf"),
    ("A=1\\x00HF_TOKEN=qwerty77asdf\\x00B=2", "qwerty77asdf"),
    ("DATABASE_URL=postgresql+asyncpg://svc:p%40ss77w@db:5432/x", "ss77w"),
    ("postgres://svc:p/ss77w@db/x", "ss77w"),
    ("DSN=host=db user=svc password='it\\'s77w' dbname=x", "s77w"),
    (
        "SENTRY_DSN=https://1234567890abcdef1234567890abcdef@o1.ingest.sentry.io/55",
        "1234567890abcdef",
    ),
    ("https://hooks.slack.com/services/T000/B000/xyzXYZ123abc", "xyzXYZ123abc"),
    ("https://x.blob.core.windows.net/c/b?sv=2022&se=2026&sp=r&sig=abc%2Fdef77%3D", "def77"),
    ("https://api.x.y/v1?apikey=qwerty77asdf", "qwerty77asdf"),
    ("wss://x.y/ws?access_token=qwerty77asdf#frag", "qwerty77asdf"),
    ("[http]\n  extraheader = AUTHORIZATION: basic eDpxd2VydHk3Nw==", "eDpxd2VydHk3Nw"),
    ("machine api.wandb.ai\n  login user\n  password qwerty77asdf", "qwerty77asdf"),
    ("//registry.npmjs.org/:_authToken=qwerty77-asdf", "qwerty77-asdf"),
    ('{"auths":{"reg":{"auth":"Ym9iOnF3ZXJ0eTc3YXNkZg=="}}}', "Ym9iOnF3ZXJ0eTc3YXNkZg"),
    ("aws_session_token = IQoJb3JpZ2luX2VjEJr77xyz", "IQoJb3JpZ2luX2VjEJr77xyz"),
    ("Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request", "AKIAIOSFODNN7EXAMPLE"),
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=x/2026, SignedHeaders=host, Signature=fe5f80f77d5fa3beca038a248ff027",
        "fe5f80f77d5fa",
    ),
    (
        'Authorization: Digest username="bob", realm="x", nonce="dcd98b7102dd2f0e", response="6629fae49393a05397450978507c4ef1"',
        "6629fae4",
    ),
    ("--api-key ab12cd34ef56 gh78ij90kl12 --port 8000", "gh78ij90kl12"),
    ("--api-key=$(cat /home/zoltan/key)", "zoltan"),
    ("MYSQL_PWD=qw77", "qw77"),
    ("password: correct horse battery staple", "battery"),
    ("PASSWORD=p@ss,w;rd&77)x", "rd&77"),
    ('passwd = "a\\"b77c"', "b77c"),
    ("{'password': 'a\\'b77c', 'x': 1}", "b77c"),
    ("&quot;password&quot;: &quot;qwerty77asdf&quot;", "qwerty77asdf"),
    ("%22password%22%3A%22qwerty77asdf%22", "qwerty77asdf"),
    ("password%253Dqwerty77asdf", "qwerty77asdf"),
    ('{\\\\\\"api_key\\\\\\":\\\\\\"qwerty77asdf\\\\\\"}', "qwerty77asdf"),
    ('{"api\\u005fkey": "qwerty77asdf"}', "qwerty77asdf"),
    ("api_\x1b[1mkey\x1b[0m=qwer\x1b[31mty77asdf", "ty77asdf"),
    ("api_key=\\u001b[31mqwerty77asdf", "qwerty77asdf"),
    ("hf_\u200babcdefgh12345", "abcdefgh12345"),
    ("kubectl --token=qwerty77asdf get pods", "qwerty77asdf"),
    ("token=qwerty77asdfqwerty77", "qwerty77asdfqwerty77"),
    ("X-Vault-Token: hvs.CAESIJqwerty77asdf1234", "CAESIJ"),
    ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqwerty77 zoltan@box7", "AAAAC3Nz"),
    ("Session cookie: sessionid=qwerty77asdf; path=/", "qwerty77asdf"),
    ("('set-cookie', 'sid=qwerty77asdf; Path=/')", "qwerty77asdf"),
    ('wpa_supplicant: psk="qwerty77"', "qwerty77"),
    (
        "wlan0: Trying to associate with a0:b1:c2:d3:e4:f5 (SSID='Zoltan Home' freq=5180 MHz)",
        "Zoltan Home",
    ),
    ('wlan0: associate with SSID "Zoltans iPhone"', "Zoltans"),
    ("-rw-r--r-- 1 zoltan staff 123 Apr 2 x", "zoltan"),
    ("drwxr-xr-x. 2 zoltan zoltan 4096", "zoltan"),
    ("gpustat: zoltan:python/2201(3000M)", "zoltan"),
    ("New session 3 of user zoltan.", "zoltan"),
    ("User=zoltan", "zoltan"),
    ("useradd[1]: new user: name=zoltan, UID=1001", "zoltan"),
    ("\\\\fileserver7\\share\\x", "fileserver7"),
    ("CORP\\zoltan logged on", "zoltan"),
    ("C:/Users/Zoltan Kis/AppData", "Kis"),
    ("/c/Users/zoltan/AppData", "zoltan"),
    ("file:///home/zoltan/x", "zoltan"),
    ("~zoltan/x", "zoltan"),
    ("cd ~zoltan/x", "zoltan"),
    ("/home/z/zoltan/x", "zoltan"),
    ("/data/home/zoltan/x", "zoltan"),
    ('"cwd":"\\/home\\/zoltan"', "zoltan"),
    ("zoltan.kis [at] uni-x.org", "zoltan"),
    ('"ZOLTAN@UNI-X.ORG"', "ZOLTAN@"),
    ("::ffff:10.20.30.40", "10.20.30.40"),
    ("IPv6 addr 2001:DB8::7:1%eth0", "2001:DB8"),
    ("inet 10.20.30.40/24 brd 10.20.30.255", "10.20.30"),
    ("10.20.30.40:8000->10.20.30.41:5", "10.20.30"),
    ("a0b1.c2d3.e4f5", "a0b1.c2d3"),
    ("enxa0b1c2d3e4f5: renamed", "a0b1c2d3e4f5"),
    ("link/infiniband 80:00:02:08:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:c3:d4:e6", "50:6b:4b"),
    ("node_guid: 506b:4b03:00c3:d4e6", "4b03:00c3"),
    ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4-part1", "5000c500a1b2c3d4"),
    ("nvme0: eui.0025385b01401234", "0025385b01401234"),
    ("systemd.machine_id=0123456789abcdef0123456789ABCDEF", "0123456789abcdef"),
    ("root=UUID=5f0c1a2b-1111-4222-8333-0123456789AB ro", "5f0c1a2b"),
    ("MIG-5f0c1a2b-1111-4222-8333-0123456789ab", "5f0c1a2b"),
    ("SLURM_NODELIST=zgpu[01-04]", "zgpu"),
    ("hostname: zgpu-07", "zgpu-07"),
    ("kubelet, zgpu-07 Started container", "zgpu-07"),
    ("Node: zgpu-07/10.3.4.5", "zgpu-07"),
    ('"nodeName":"zgpu-07"', "zgpu-07"),
    ("pod=vllm-zed-0 ns=x", "vllm-zed-0"),
    ("pod/vllm-zed-0 created", "vllm-zed-0"),
    ("Connecting to zgpu-07.cluster.company.net:29500", "zgpu-07"),
    ("http://registry.company.net:5000/v2", "company"),
    ("tcp://zgpu07:29500", "zgpu07"),
    ("[rank0] MASTER_ADDR=zgpu07", "zgpu07"),
    ("--dist-init-addr zgpu07:5000", "zgpu07"),
    ("init_method=tcp://zgpu07:29500", "zgpu07"),
    ("zgpu07:12345:12399 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>", "zgpu07"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBGqwerty77", "lQOYBG"),
    ("age key AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQ", "1QQQQ"),
    ("BEARER abcDEF123456", "abcDEF123456"),
    (
        '{"type":"service_account","private_key_id":"0a1b2c3d4e5f","client_email":"x@p.iam.gserviceaccount.com"}',
        "x@p",
    ),
    ("SECRET_KEY_BASE=qwerty77asdf", "qwerty77asdf"),
    ("oauth2:qwerty77asdf@gitlab.x.y/z", "qwerty77asdf"),
    ("username=zoltan&password=qwerty77", "qwerty77"),
    ("Password: qwerty", "qwerty"),
    ("pwd=qwerty77;", "qwerty77"),
]
"""A text, and what must not be left of it."""
