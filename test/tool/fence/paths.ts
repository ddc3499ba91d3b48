// Paths that file tools must not touch (home /home/u, agent home /home/u/.hermes), each with its reason.

/** Refused for writing. */
export const writes: ReadonlyArray<readonly [path: string, reason: string]> = [
  ["/etc/passwd", "accounts"], ["/etc/shadow", "password hashes"], ["/etc/gshadow", "password hashes"],
  ["/etc/sudoers", "who may be root"], ["/etc/sudoers.d/x", "who may be root"], ["/etc/hosts", "names"],
  ["/etc/crontab", "scheduled commands"], ["/etc/cron.d/x", "scheduled commands"], ["/etc/ld.so.preload", "loaded into everything"],
  ["/etc/systemd/system/x.service", "services"], ["/etc/ssh/sshd_config", "logins"], ["/etc/pam.d/sudo", "logins"],
  ["/etc/profile", "every shell"], ["/etc/environment", "every session"], ["/etc/resolv.conf", "name servers"],
  ["/etc", "the directory itself"], ["/ETC/PASSWD", "in capitals"], ["/private/etc/hosts", "as macOS names it"],
  ["/private/var/db/x", "system data"], ["/boot/grub/grub.cfg", "boot loader"], ["/boot/vmlinuz", "kernel"],
  ["/bin/ls", "programs"], ["/sbin/init", "programs"], ["/usr/bin/sudo", "programs"], ["/usr/sbin/sshd", "programs"],
  ["/usr/local/bin/git", "programs"], ["/usr/lib/libc.so", "libraries"], ["/usr/lib/systemd/system/x.service", "services"],
  ["/lib/x86_64-linux-gnu/libc.so.6", "libraries"], ["/lib64/ld-linux.so", "libraries"], ["/usr/share/x", "system data"],
  ["/dev/sda", "disk"], ["/dev/mem", "memory"], ["/dev/nvme0n1", "disk"], ["/proc/sysrq-trigger", "restart"],
  ["/proc/sys/kernel/core_pattern", "kernel settings"], ["/proc/1/mem", "memory of others"], ["/sys/power/state", "sleep"],
  ["/var/run/docker.sock", "container engine"], ["/run/docker.sock", "container engine"], ["/var/spool/cron/root", "scheduled commands"],
  ["/var/lib/dpkg/status", "packages"], ["/System/Library/x", "system of macOS"], ["/Library/LaunchDaemons/x.plist", "services of macOS"],
  ["/home/u/.ssh/authorized_keys", "logins"], ["/home/u/.ssh/config", "connections"], ["/home/u/.ssh/id_rsa", "key"],
  ["/home/u/.ssh/id_ed25519", "key"], ["/home/u/.ssh/known_hosts", "trusted machines"], ["/home/u/.ssh", "keys"],
  ["/home/u/.aws/credentials", "cloud"], ["/home/u/.aws/config", "cloud"], ["/home/u/.azure/x", "cloud"],
  ["/home/u/.config/gcloud/x", "cloud"], ["/home/u/.config/gh/hosts.yml", "repositories"], ["/home/u/.config/op/x", "passwords"],
  ["/home/u/.gnupg/x", "keys"], ["/home/u/.kube/config", "clusters"], ["/home/u/.docker/config.json", "registries"],
  ["/home/u/.password-store/x.gpg", "passwords"], ["/home/u/.local/share/keyrings/login.keyring", "passwords"],
  ["/home/u/.netrc", "logins"], ["/home/u/.pgpass", "databases"], ["/home/u/.npmrc", "packages"], ["/home/u/.pypirc", "packages"],
  ["/home/u/.git-credentials", "repositories"], ["/home/u/.my.cnf", "databases"], ["/home/u/.vault-token", "secrets"],
  ["/home/u/.cargo/credentials", "packages"], ["/home/u/.cargo/credentials.toml", "packages"],
  ["/home/u/.terraform.d/credentials.tfrc.json", "cloud"], ["/home/u/.config/git/credentials", "repositories"],
  ["/home/u/.bashrc", "every shell"], ["/home/u/.bash_profile", "every login"], ["/home/u/.bash_login", "every login"],
  ["/home/u/.bash_logout", "every logout"], ["/home/u/.profile", "every login"], ["/home/u/.zshrc", "every shell"],
  ["/home/u/.zshenv", "every shell"], ["/home/u/.zprofile", "every login"], ["/home/u/.zlogin", "every login"],
  ["/home/u/.config/fish/config.fish", "every shell"], ["/home/u/.BASHRC", "in capitals"],
  ["/home/u/.hermes/.env", "the agent's keys"], ["/home/u/.hermes/config.yaml", "the agent's rules"],
  ["/home/u/.hermes/config.yml", "the agent's rules"], ["/home/u/.hermes/auth.json", "the agent's logins"],
  ["/home/u/.hermes/state.db", "the agent's sessions"], ["/home/u/.hermes/state.db-wal", "the agent's sessions"],
  ["/home/u/.hermes/server.key", "the key of the agent's server"], ["/home/u/.hermes/mcp-tokens/x", "the agent's logins"], ["/home/u/.hermes/pairing/x", "the agent's users"],
  ["/home/u/.hermes/cron/jobs.json", "scheduled jobs"], ["/home/u/.hermes/scripts/daily.sh", "what scheduled jobs run"],
  ["/home/u/.hermes/skills/x.md", "what the agent is told"], ["/home/u/.hermes/memories/MEMORY.md", "what the agent remembers"],
  ["/home/u/.hermes/plugins/x/index.js", "what the agent loads"], ["/home/u/.hermes/shell-hooks-allowlist.json", "the agent's consents"],
  ["/code/project/.env", "project secrets"], ["/code/project/.env.local", "project secrets"],
  ["/code/project/.env.production", "project secrets"], ["/code/keys/id_rsa", "key"], ["/code/keys/id_ecdsa_sk", "key"]
]

/** Refused for reading. */
export const reads: ReadonlyArray<readonly [path: string, reason: string]> = [
  ["/dev/zero", "never ends"], ["/dev/random", "never ends"], ["/dev/urandom", "never ends"], ["/dev/full", "never ends"],
  ["/dev/stdin", "waits"], ["/dev/tty", "waits"], ["/dev/console", "waits"], ["/dev/fd/0", "waits"], ["/proc/self/fd/0", "waits"],
  ["/proc/self/environ", "secrets of the process"], ["/proc/1/environ", "secrets of others"], ["/proc/kmsg", "never ends"],
  ["/etc/shadow", "password hashes"], ["/etc/shadow-", "their copy"], ["/etc/sudoers", "who may be root"],
  ["/etc/ssl/private/server.key", "key"], ["/etc/ssh/ssh_host_ed25519_key", "key"], ["/home/u/.ssh/id_rsa", "key"],
  ["/home/u/.ssh/work_key", "key"], ["/home/u/.aws/credentials", "cloud"], ["/home/u/.netrc", "logins"],
  ["/home/u/.git-credentials", "repositories"], ["/home/u/.gnupg/secring.gpg", "keys"], ["/home/u/.hermes/.env", "the agent's keys"],
  ["/home/u/.hermes/auth.json", "the agent's logins"], ["/home/u/.hermes/state.db", "the agent's sessions"],
  ["/code/project/.env", "project secrets"], ["/code/project/.env.local", "project secrets"]
]

/** What a developer works with. */
export const ordinary: ReadonlyArray<string> = [
  "/code/project/src/main.ts", "/code/project/.env.example", "/code/project/package.json", "/tmp/x.txt", "/home/u/notes.md",
  "/home/u/project/.gitignore", "/home/u/.config/nvim/init.lua", "/usr/src/app/index.js", "/code/etc/passwd", "/code/.sshx/y",
  "/home/u/environment.md", "/code/project/docs/bashrc.md", "/var/tmp/x", "/opt/app/config.json"
]
