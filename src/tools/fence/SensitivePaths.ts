/**
 * Recognizes, by path, files that contain secrets or that later run something. One table is used by the file tools that
 * open them, the sandbox that hides them and the judge of commands that name them. Only the text counts; links are
 * followed where files are opened.
 */
import { isLaterPath } from "../../places/LaterFiles.ts"

/**
 * Returns a path without `.`, `..`, double slashes and a trailing glob or slash; relative paths start in `cwd` if it is
 * known.
 */
export const tidyPath = (path: string, cwd?: string): string => {
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

/** Pattern for a home directory, in lower case. */
export const home = String.raw`(?:~[\w.-]*|\/root|\/home\/[^/]+|\/users\/[^/]+|\$home)`

/** Names below a home directory, without the leading dot, that shells, sessions and editors run. */
const startupNames = [
  "bash(?:rc|_profile|_login|_logout|_aliases)",
  "zsh(?:rc|env)|zprofile|zlogin|profile|inputrc|xinitrc|xprofile",
  String.raw`config\/(?:fish\/|autostart\/|systemd\/|environment\.d\/|plasma-workspace\/)`,
  String.raw`local\/share\/(?:applications|systemd|dbus-1)\/`,
  String.raw`kshrc|cshrc|tcshrc|login|pam_environment|vimrc|emacs|tmux\.conf`
].join("|")
const startupFile = new RegExp(String.raw`^${home}\/\.(?:${startupNames})`)
/** Directories of programs that precede the system's directories on `PATH`. */
const programDirectory = new RegExp(String.raw`^${home}\/(?:\.local\/|\.cargo\/|\.bun\/|go\/)?bin(?:\/|$)`)
const launchAgents = new RegExp(String.raw`^${home}\/library\/launchagents\/`)
const gitSettings = new RegExp(String.raw`^${home}\/\.(?:gitconfig|config\/git\/)`)
/** Files of git that contain commands to run; the sandbox shares a table of such files of other tools. */
const repositoryHooks = /(?:^|\/)\.git\/(?:hooks(?:\/|$)|config$|modules\/.*\/hooks\/)/

/**
 * Describes a file that later runs something without a question, regardless of its writer; `undefined` for any other
 * file.
 */
export const describeLaterRun = (path: string): string | undefined => {
  const tidied = tidyPath(path).toLowerCase()
  if (startupFile.test(tidied) || launchAgents.test(tidied)) return "a file that runs when a shell or session starts"
  if (programDirectory.test(tidied)) return "a directory of programs in the search path"
  if (gitSettings.test(tidied)) return "git hooks or git configuration"
  return repositoryHooks.test(tidied) || isLaterPath(tidied)
    ? "a file from which tools run commands (hooks, tasks, settings of an editor or an agent)"
    : undefined
}

/** Directories below a home directory that contain keys, tokens, and settings for their use. */
export const credentialDirectories = [
  ".ssh",
  ".aws",
  ".azure",
  ".docker",
  ".gnupg",
  ".kube",
  ".config/gcloud",
  ".config/gh",
  ".config/op",
  ".local/share/keyrings",
  ".password-store"
]

/** Single files below a home directory that contain secrets. */
export const credentialFiles = [
  ".cargo/credentials",
  ".cargo/credentials.toml",
  ".config/git/credentials",
  ".git-credentials",
  ".my.cnf",
  ".netrc",
  ".npmrc",
  ".pgpass",
  ".pypirc",
  ".terraform.d/credentials.tfrc.json",
  ".vault-token"
]

/** Matches a file of environment variables, unless it is an {@link environmentTemplate}. */
const environmentFile = /(?:^|\/)\.env(?:\.[^/]+)?$/
const environmentTemplate = /\.(?:example|sample|template|dist|defaults)$/
const keyFile = /(?:^|\/)id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$/
/** Part of a regular expression that matches the environment and the memory of a process. */
export const processSecret = String.raw`^\/proc\/[^/]+\/(?:task\/[^/]+\/)?(?:environ|mem|auxv)$`
const systemSecrets = [
  "g?shadow-?",
  String.raw`sudoers(?:\.d\/.*)?`,
  String.raw`master\.passwd`,
  String.raw`ssl\/private\/.*`,
  String.raw`ssh\/ssh_host_[^/]*_key`,
  String.raw`kubernetes\/.*\.conf`
].join("|")
const machineSecret = new RegExp(String.raw`^(?:\/private)?\/etc\/(?:${systemSecrets})$|${processSecret}`)

/**
 * Returns true if a path in lower case is a secret in any directory: an environment file, a private key, a secret of
 * the machine.
 */
export const isPlainSecret = (path: string): boolean =>
  (environmentFile.test(path) && !environmentTemplate.test(path)) || keyFile.test(path) || machineSecret.test(path)

/** Names below the home directory of hermes that contain keys, tokens, or conversations of sessions. */
export const ownName =
  String.raw`(?:\.env|config\.ya?ml|auth\.json|auth|mcp-tokens|pairing|server\.key|\.draft-[^/]*|state\.db|` +
  String.raw`state\.tenants\.db|memories\/tenants|changes\/contents|credential)(?![a-z])[^/]*(?:\/|$)`
const ownSecretName = new RegExp(`^${ownName}`)

/** Returns true if a name below the home directory of hermes is one of its secrets. */
export const isOwnSecret = (name: string): boolean => ownSecretName.test(name.toLowerCase())
