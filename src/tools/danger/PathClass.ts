/**
 * Classifies a path in a command: the root, a system directory, a home directory, a raw disk, a file of this program,
 * or a file with secrets. Only the text counts; links are judged where files are opened.
 */
import {
  credentialDirectories,
  credentialFiles,
  home,
  isPlainSecret,
  ownName,
  processSecret,
  tidyPath
} from "../fence/SensitivePaths.ts"

const systemDirectories = new Set([
  "/bin",
  "/boot",
  "/dev",
  "/etc",
  "/home",
  "/lib",
  "/lib32",
  "/lib64",
  "/media",
  "/mnt",
  "/opt",
  "/proc",
  "/root",
  "/run",
  "/sbin",
  "/srv",
  "/sys",
  "/usr",
  "/var",
  "/usr/bin",
  "/usr/lib",
  "/usr/lib64",
  "/usr/sbin",
  "/usr/share",
  "/usr/local",
  "/var/lib",
  "/boot/efi",
  "/system",
  "/system/library",
  "/library",
  "/applications",
  "/users",
  "/private",
  "/private/etc",
  "/private/var",
  "/volumes",
  "/nix",
  "/snap"
])

const windowsDirectory = new RegExp(
  String.raw`^(?:[a-z]:[\\/]*|%systemdrive%[\\/]*)(?:(?:windows|users)[\\/]*\*?$|program ?files)|` +
    "^%(?:userprofile|systemroot|windir)%",
  "i"
)

/** Names the area that would be lost if everything below a path were deleted. */
export const classifyTerritory = (path: string, cwd?: string): "root" | "system" | "home" | undefined => {
  if (/^[a-z]:[\\/]*(?:\*(?:\.\*)?)?$/i.test(path)) return "root"
  if (windowsDirectory.test(path)) return "system"
  const tidied = tidyPath(path, cwd).toLowerCase()
  if (tidied === "/") return "root"
  if (/^~[\w.-]*$/.test(tidied) || /^\/(?:home|users)\/[^/]+$/.test(tidied) || tidied === "/root") return "home"
  return systemDirectories.has(tidied) || isSystemGlob(tidied) ? "system" : undefined
}

/**
 * Returns the regular expression for a shell pattern; `undefined` if it has no wildcard, or an unclosed class, which
 * matches itself.
 */
export const toGlobExpression = (pattern: string): RegExp | undefined => {
  const source = pattern
    .replace(/[.+^${}()|\\]/g, String.raw`\$&`)
    .replace(/\*+/g, ".*")
    .replace(/\?/g, ".")
    .replace(/\[!/g, "[^")
  try {
    return /[*?[]/.test(pattern) && pattern.length <= 32 ? new RegExp(`^${source}$`) : undefined
  } catch {
    return undefined
  }
}

/** Returns true for a glob that matches names directly below the root: `/???`, `/[a-z]*`. */
const isSystemGlob = (path: string): boolean => {
  const pattern = /^\/[^/]+$/.test(path) ? toGlobExpression(path) : undefined
  return pattern !== undefined && Array.from(systemDirectories).some((name) => pattern.test(name))
}

const rawDevice = new RegExp(
  String.raw`^\/+dev\/+(?:[hsv]d[a-z*?]|xvd|nvme|mmcblk|r?disk|dm-|md\d|loop\d|mapper\/|sr\d|sg\d|nbd|zd\d|zvol\/|` +
    String.raw`ram\d|k?mem$|block\/|by-|pmem|\*|sd\[|\?)`,
  "i"
)

/** Returns true for a device that contains file systems or memory. */
export const isRawDevice = (path: string): boolean =>
  rawDevice.test(path) || /^\\\\\.\\physicaldrive/i.test(path) || /^\/\/\.\/physicaldrive/i.test(path)

/** Credential directories whose names have another meaning in a project. */
const homeOnly = [".ssh", ".docker", ".kube"]

const makeAlternatives = (names: ReadonlyArray<string>): string =>
  `(?:${names.map((name) => name.replaceAll(".", String.raw`\.`)).join("|")})`

const agentFile = new RegExp(String.raw`^(?:${home}\/\.hermes|\$hermes_home|\$\{hermes_home\})\/.`)

/** Returns true for a file in the home directory of this program. */
export const isAgentFile = (path: string, cwd?: string): boolean => agentFile.test(tidyPath(path, cwd).toLowerCase())

const ownSecretFile = new RegExp(
  [
    String.raw`(?:^|\/)\.hermes(?:$|\/(?:${ownName}|[^/]*[*?[]))`,
    String.raw`^\$\{?hermes_home\}?(?:$|\/(?:${ownName}|[^/]*[*?[]))`,
    processSecret
  ].join("|")
)

/** Returns true if a path is a secret of this program, or exposes a process's environment or memory. */
export const isOwnSecretFile = (path: string, cwd?: string): boolean =>
  ownSecretFile.test(tidyPath(path, /^[$]/.test(path) ? undefined : cwd).toLowerCase()) ||
  ownSecretFile.test(path.toLowerCase())

const ownSecretInCode = new RegExp(
  [
    String.raw`\.hermes['",\s)/]{1,8}(?:\.env|config\.ya?ml|auth|state\.db|mcp-tokens|server\.key)`,
    String.raw`\/proc\/[^\s/]{1,64}\/environ`,
    "hermes_home"
  ].join("|"),
  "i"
)

/** Returns true if code of another language names a path that matches {@link isOwnSecretFile}. */
export const hasOwnSecretName = (code: string): boolean => ownSecretInCode.test(code)

const secretFile = new RegExp(
  [
    String.raw`(?:^|\/)\.ssh(?:\/(?!known_hosts|config$|[^/]*\.pub$|authorized_keys)[^/]*)?$`,
    String.raw`(?:^|\/)${makeAlternatives(credentialDirectories.filter((name) => !homeOnly.includes(name)))}(?:\/|$)`,
    String.raw`(?:^|\/)(?:${makeAlternatives(credentialFiles)}|\.docker\/config\.json|\.kube\/config|\.kube)$`,
    String.raw`^${home}\/\.(?:docker|kube)(?:\/|$)`,
    String.raw`(?:^|\/)\.hermes\/(?:auth\.json|auth|state\.db|mcp-tokens|server\.key)`,
    String.raw`(?:login\.keychain|keychains\/|logins\.json|key4\.db|login data|wallet\.dat|keystore\/)`,
    String.raw`(?:^|\/)(?:credentials|\.?secrets?)(?:\.(?:json|ya?ml|toml|txt|ini|env))?$`,
    String.raw`\.(?:pem|p12|pfx|keystore|jks|kdbx|ppk)$`
  ].join("|")
)

/** Returns true if a file is known to contain secrets. */
export const isSecret = (path: string, cwd?: string): boolean => {
  const tidied = tidyPath(path, cwd).toLowerCase()
  return secretFile.test(tidied) || isPlainSecret(tidied)
}
