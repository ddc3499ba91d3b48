/**
 * Classification of a path in a command: the root, a system directory, a home, a raw disk, a file that decides how the machine
 * behaves, a file with secrets in it. Only the text counts; links are judged where files are opened.
 */

const systemDirectories = new Set([
  "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin",
  "/srv", "/sys", "/usr", "/var", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/share", "/usr/local", "/var/lib", "/boot/efi",
  "/system", "/system/library", "/library", "/applications", "/users", "/private", "/private/etc", "/private/var", "/volumes", "/nix", "/snap"
])

/** A path without `.`, `..`, doubled slashes and a glob or slash at its end; relative ones start in `cwd` when it is known. */
export const tidy = (path: string, cwd?: string): string => {
  const absolute = path.startsWith("/") || path.startsWith("~") || cwd === undefined ? path : `${cwd}/${path}`
  const parts: Array<string> = []
  const rooted = absolute.startsWith("/")
  for (const part of absolute.split("/")) {
    if (part === "" || part === ".") continue
    if (part === "..") {
      if (parts.length > 0 && parts.at(-1) !== "..") parts.pop()
      else if (!rooted) parts.push(part)
    } else parts.push(part)
  }
  while (/^(?:\.?\*+|\{.*\}|\.\[\^?!?.*\]\*?|\.\?\?\*)$/.test(parts.at(-1) ?? "")) parts.pop()
  const joined = parts.join("/")
  return rooted ? `/${joined}` : joined === "" ? "." : joined
}

/** Names the territory that would be lost with everything below a path. */
export const territory = (path: string, cwd?: string): "root" | "system" | "home" | undefined => {
  if (/^[a-z]:[\\/]*(?:\*(?:\.\*)?)?$/i.test(path)) return "root"
  if (
    /^(?:[a-z]:[\\/]*|%systemdrive%[\\/]*)(?:(?:windows|users)[\\/]*\*?$|program ?files)|^%(?:userprofile|systemroot|windir)%/i.test(path)
  ) {
    return "system"
  }
  const tidied = tidy(path, cwd).toLowerCase()
  if (tidied === "/") return "root"
  if (/^~[\w.-]*$/.test(tidied) || /^\/(?:home|users)\/[^/]+$/.test(tidied) || tidied === "/root") return "home"
  return systemDirectories.has(tidied) || globsSystem(tidied) ? "system" : undefined
}

/** The expression of a pattern of a shell; undefined where it has none, or a class that is not closed, which matches itself. */
export const globExpression = (pattern: string): RegExp | undefined => {
  const source = pattern.replace(/[.+^${}()|\\]/g, String.raw`\$&`).replace(/\*+/g, ".*").replace(/\?/g, ".").replace(/\[!/g, "[^")
  try {
    return /[*?[]/.test(pattern) && pattern.length <= 32 ? new RegExp(`^${source}$`) : undefined
  } catch {
    return undefined
  }
}

/** `/???`, `/[a-z]*`: a glob over the first names below the root. */
const globsSystem = (path: string): boolean => {
  const pattern = /^\/[^/]+$/.test(path) ? globExpression(path) : undefined
  return pattern !== undefined && Array.from(systemDirectories).some((name) => pattern.test(name))
}

/** A device that holds file systems, or memory. */
export const isRawDevice = (path: string): boolean =>
  /^\/+dev\/+(?:[hsv]d[a-z*?]|xvd|nvme|mmcblk|r?disk|dm-|md\d|loop\d|mapper\/|sr\d|sg\d|nbd|zd\d|zvol\/|ram\d|k?mem$|block\/|by-|pmem|\*|sd\[|\?)/i.test(path) ||
  /^\\\\\.\\physicaldrive/i.test(path) || /^\/\/\.\/physicaldrive/i.test(path)

const home = String.raw`(?:~[\w.-]*|\/root|\/home\/[^/]+|\/users\/[^/]+|\$home)`

const startupFile = new RegExp(
  String.raw`^${home}\/\.(?:bash(?:rc|_profile|_login|_logout|_aliases)|zsh(?:rc|env)|zprofile|zlogin|profile|inputrc|xinitrc|xprofile|config\/(?:fish\/|autostart\/|systemd\/|environment\.d\/|plasma-workspace\/)|local\/share\/(?:applications|systemd|dbus-1)\/|kshrc|cshrc|tcshrc|login|pam_environment|vimrc|emacs|tmux\.conf)`
)
/** Directories of programs that are found before those of the system. */
const programDirectory = new RegExp(String.raw`^${home}\/(?:\.local\/|\.cargo\/|\.bun\/|go\/)?bin(?:\/|$)`)
const gitSettings = new RegExp(String.raw`^${home}\/\.(?:gitconfig|config\/git\/)`)
/** Files of a project from which a tool, an editor or another agent runs commands unasked. */
const projectHooks =
  /(?:^|\/)(?:\.git\/(?:hooks(?:\/|$)|config$|modules\/.*\/hooks\/)|\.husky\/|\.githooks\/|\.vscode\/(?:tasks|settings|launch)\.json$|\.devcontainer\/|\.pre-commit-config\.yaml$|lefthook(?:-local)?\.ya?ml$|\.envrc$|\.(?:claude|cursor|gemini|codex|hermes)\/(?:settings|hooks|mcp|config)[^/]*$|\.mcp\.json$)/

/** A place from which something runs later without a question, whoever wrote it there. */
export const runsLater = (path: string): string | undefined => {
  const tidied = tidy(path).toLowerCase()
  if (startupFile.test(tidied) || launchAgents.test(tidied)) return "a file that runs when a shell or session starts"
  if (programDirectory.test(tidied)) return "a directory of programs in the search path"
  if (gitSettings.test(tidied)) return "git hooks or git configuration"
  return projectHooks.test(tidied) ? "a file from which tools run commands (hooks, tasks, settings of an editor or an agent)" : undefined
}

// Credentials: one table for the commands that name them and for the file tools that open them.

/** Directories below a home directory that hold keys, tokens, and settings of how they are used, whole. */
export const credentialDirectories = [
  ".ssh", ".aws", ".azure", ".docker", ".gnupg", ".kube", ".config/gcloud", ".config/gh", ".config/op",
  ".local/share/keyrings", ".password-store"
]

/** Single files below a home directory with secrets in them. */
export const credentialFiles = [
  ".cargo/credentials", ".cargo/credentials.toml", ".config/git/credentials", ".git-credentials", ".my.cnf", ".netrc",
  ".npmrc", ".pgpass", ".pypirc", ".terraform.d/credentials.tfrc.json", ".vault-token"
]

/** Credential directories whose names mean something else in a project. */
const homeOnly = [".ssh", ".docker", ".kube"]

const oneOf = (names: ReadonlyArray<string>): string => `(?:${names.map((name) => name.replaceAll(".", String.raw`\.`)).join("|")})`

const environmentFile = /(?:^|\/)\.env(?:\.[^/]+)?$/
const environmentTemplate = /\.(?:example|sample|template|dist|defaults)$/
const keyFile = /(?:^|\/)id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$/
const machineSecret =
  /^(?:\/private)?\/etc\/(?:g?shadow-?|sudoers(?:\.d\/.*)?|master\.passwd|ssl\/private\/.*|ssh\/ssh_host_[^/]*_key|kubernetes\/.*\.conf)$|^\/proc\/[^/]+\/(?:task\/[^/]+\/)?(?:environ|mem|auxv)$/

/** True when a path in lower case is a secret wherever it stands: an environment file, a private key, a secret of the machine. */
export const isPlainSecret = (path: string): boolean =>
  environmentFile.test(path) && !environmentTemplate.test(path) || keyFile.test(path) || machineSecret.test(path)

const credentialFile = new RegExp(String.raw`^${home}\/(?:${oneOf(credentialFiles)}|${oneOf(credentialDirectories)}(?:\/|$))`)
const sshFile = new RegExp(String.raw`^${home}\/\.ssh(?:\/|$)`)
const agentFile = new RegExp(String.raw`^(?:${home}\/\.hermes|\$hermes_home|\$\{hermes_home\})\/.`)
const systemConfig = /^(?:\/private)?\/etc(?:\/|$)|^\/(?:boot|usr\/lib\/systemd|lib\/systemd|system|library\/launch(?:agents|daemons)|var\/spool\/cron|usr\/(?:s?bin|lib)|s?bin|lib(?:64)?)(?:\/|$)|^\/(?:proc\/sys|sys)\/|^\/(?:var\/)?run\/docker\.sock$/
const launchAgents = new RegExp(String.raw`^${home}\/library\/launchagents\/`)

/** Names the kind of configuration of a file that decides how the machine or the agent behaves. */
export const configuration = (path: string, cwd?: string): string | undefined => {
  const tidied = tidy(path, cwd).toLowerCase()
  if (agentFile.test(tidied)) return "the agent's own configuration"
  if (sshFile.test(tidied) || /(?:^|\/)authorized_keys2?$/.test(tidied)) return "SSH configuration"
  if (systemConfig.test(tidied)) return "system configuration"
  const later = runsLater(tidied)
  if (later !== undefined) return later
  if (credentialFile.test(tidied)) return "a credential file"
  if (/(?:^|\/)\.(?:envrc|npmrc|pypirc|netrc|pgpass)$/.test(tidied)) return "a credential file"
  return environmentFile.test(tidied) && !environmentTemplate.test(tidied) ||
    /^(?:\.\/)?config\.ya?ml$/.test(tidied)
    ? "project environment or configuration"
    : undefined
}

/** Names below the home directory of hermes that hold keys, tokens, or what was said in sessions. */
const ownName = String.raw`(?:\.env|config\.ya?ml|auth\.json|auth|mcp-tokens|pairing|state\.db|credential)(?![a-z])[^/]*(?:\/|$)`
const ownSecretName = new RegExp(`^${ownName}`)

/** True when a name below the home directory of hermes is one of its secrets. */
export const isOwnSecret = (name: string): boolean => ownSecretName.test(name.toLowerCase())

const ownSecretFile = new RegExp(
  String.raw`(?:^|\/)\.hermes(?:$|\/(?:${ownName}|[^/]*[*?[]))|^\$\{?hermes_home\}?(?:$|\/(?:${ownName}|[^/]*[*?[]))|^\/proc\/[^/]+\/(?:task\/[^/]+\/)?(?:environ|mem|auxv)$`
)

/** True when a path is a secret of this program, or what the system says of a process's environment and memory. */
export const isOwnSecretFile = (path: string, cwd?: string): boolean =>
  ownSecretFile.test(tidy(path, /^[$]/.test(path) ? undefined : cwd).toLowerCase()) || ownSecretFile.test(path.toLowerCase())

/** A place of {@link isOwnSecretFile} in the code of another language. */
export const namesOwnSecret = (code: string): boolean =>
  new RegExp(String.raw`\.hermes['",\s)/]{1,8}(?:\.env|config\.ya?ml|auth|state\.db|mcp-tokens)|\/proc\/[^\s/]{1,64}\/environ|hermes_home`, "i").test(code)

const secretFile = new RegExp(
  [
    String.raw`(?:^|\/)\.ssh(?:\/(?!known_hosts|config$|[^/]*\.pub$|authorized_keys)[^/]*)?$`,
    String.raw`(?:^|\/)${oneOf(credentialDirectories.filter((name) => !homeOnly.includes(name)))}(?:\/|$)`,
    String.raw`(?:^|\/)(?:${oneOf(credentialFiles)}|\.docker\/config\.json|\.kube\/config|\.kube)$`,
    String.raw`^${home}\/\.(?:docker|kube)(?:\/|$)`,
    String.raw`(?:^|\/)\.hermes\/(?:auth\.json|auth|state\.db|mcp-tokens)`,
    String.raw`(?:login\.keychain|keychains\/|logins\.json|key4\.db|login data|wallet\.dat|keystore\/)`,
    String.raw`(?:^|\/)(?:credentials|\.?secrets?)(?:\.(?:json|ya?ml|toml|txt|ini|env))?$`,
    String.raw`\.(?:pem|p12|pfx|keystore|jks|kdbx|ppk)$`
  ].join("|")
)

/** True when a file is known to hold secrets. */
export const isSecret = (path: string, cwd?: string): boolean => {
  const tidied = tidy(path, cwd).toLowerCase()
  return secretFile.test(tidied) || isPlainSecret(tidied)
}
