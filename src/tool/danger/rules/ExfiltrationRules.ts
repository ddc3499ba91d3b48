/**
 * Data that leaves: secrets read or sent, files sent to other machines, addresses that hand out credentials.
 */
import { ask, type Command, hasFlag, named, operands, type Rule, written } from "../Command.ts"
import * as PathClass from "../PathClass.ts"
import * as Wrappers from "../Wrappers.ts"

const readers = named(`
  cat bat batcat less more most head tail tac nl rev sort uniq strings xxd od hexdump base64 base32 cut awk gawk
  mawk sed grep egrep rg view vi vim nano tee paste fold fmt pr dd jq yq cp mv scp rsync tar zip 7z gzip openssl gpg
  diff cmp source .
`)

/** Reading these from `.env` and the like is daily work; of keys it is not. */
const working = /^(?:grep|egrep|rg|source|\.|diff|cmp|vi|vim|nano|sed|awk|gawk|mawk|cp|mv|tee|openssl|sort|jq|yq)$/

const daily = /(?:^|\/)(?:\.env[^/]*|\.npmrc|\.envrc|[^/]*\.(?:pem|crt)|secrets?\.[a-z]+|credentials\.[a-z]+)$/i

/** The secret files that a command reads. */
const secrets = ({ args, cwd, program, redirects }: Command): ReadonlyArray<string> =>
  [
    ...(/^(?:scp|rsync)$/.test(program) ? withoutIdentity(args) : operands(args)),
    ...args.flatMap((arg) => /^(?:if=|@|[^=\s]{1,40}=@)(.+)$/.exec(arg)?.slice(1) ?? []),
    ...redirects.filter(({ operator }) => operator === "<").map(({ target }) => target.text)
  ].filter((path) => PathClass.isSecret(path, cwd) && !(working.test(program) && daily.test(path)))

const secretRead: Rule = (command) => {
  if (!readers.has(command.program)) return undefined
  const found = secrets(command)
  return found.length > 0 ? ask("exfiltration", "reading of credentials") : undefined
}

/** Programs that show nothing of what is in a file. */
export const blind = named("ls stat test [ [[ file du echo printf hermes cd mkdir pushd touch chmod chown wc rm rmdir git")
export const interpreting = /^(?:python[\d.]*|pypy3?|perl|ruby|node|nodejs|deno|bun|tsx|php|lua|osascript|awk|gawk|mawk|sqlite3?)$/

/** Returns paths that a command may read: its operands, values of flags, and its input. */
export const sources = ({ fields, redirects }: Command): ReadonlyArray<string> => [
  ...fields.flatMap(({ shown }) => {
    const value = shown.slice(Math.max(shown.lastIndexOf("="), shown.lastIndexOf("@")) + 1)
    return value === shown ? [shown] : [shown, value]
  }),
  ...redirects.filter(({ operator }) => operator === "<" || operator === "<>").map(({ target }) => target.shown)
]

/** Keys of this program: its home directory, its environment, its memory. Work in a project needs none of them. */
const ownSecrets: Rule = (command) => {
  const { args, cwd, program } = command
  const found = !blind.has(program) && sources(command).some((path) => PathClass.isOwnSecretFile(path, cwd)) ||
    program === "cd" && sources(command).some((path) => /^\/proc\/(?:\d|self|\$|\*)/.test(path)) ||
    interpreting.test(program) && args.some(PathClass.namesOwnSecret) ||
    // `ps e` shows environments; `ps -e` shows every process.
    program === "ps" && args.some((arg, index) => arg === "-E" || /^[a-df-z]*e[a-z]*$/.test(arg) && !/^-(?:[a-zA-Z]*[oOCuUpgGt]|-\w[\w-]*)$/.test(args[index - 1] ?? "")) ||
    program === "gcore" || /^(?:gdb|lldb|strace|ltrace)$/.test(program) && hasFlag(args, "p", ["pid", "attach"])
  return found ? ask("exfiltration", "reading of the agent's own credentials") : undefined
}

const secretPrograms: Rule = ({ args, program }) => {
  const key = "reading of credentials"
  const verb = operands(args).slice(0, 2).join(" ")
  if (program === "security" && /^(?:find-(?:generic|internet)-password|dump-keychain|export)/.test(verb)) {
    return ask("exfiltration", key)
  }
  if (program === "gpg" && args.some((arg) => arg.startsWith("--export-secret"))) return ask("exfiltration", key)
  if (program === "gh" && verb === "auth token" || program === "gcloud" && /print-access-token/.test(args.join(" "))) {
    return ask("exfiltration", key)
  }
  if (program === "git" && verb.startsWith("credential fill")) return ask("exfiltration", key)
  if (/^(?:mimikatz|secretsdump|lazagne)/.test(program)) return ask("exfiltration", key)
  return program === "vault" && /^(?:read|kv)$/.test(args[0] ?? "") && args.includes("get") ? ask("exfiltration", key) : undefined
}

const clients = /^(?:curl|wget|http|https|xh|aria2c|lynx|fetch|iwr|irm|invoke-webrequest|invoke-restmethod)$/
const secretName = /(?:key|token|secret|passw(?:or)?d|credential|api)/i
const local = /^(?:https?:\/\/)?(?:[^/@\s]*@)?(?:localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal)(?:[:/?#]|$)/i

/** Addresses of cloud machines that hand out credentials to whoever asks. */
const metadata = /(?:^|[/@\s])(?:169\.254\.169\.254|169\.254\.170\.2|169\.254\.169\.253|100\.100\.100\.200|\[?fd00:ec2::254\]?|metadata\.google\.internal|metadata\.goog|2852039166|0xa9fea9fe|0xa9\.0xfe\.0xa9\.0xfe|0251\.0376\.0251\.0376|\[?::ffff:(?:169\.254\.169\.254|a9fe:a9fe)\]?)(?:[:/.?#]|$)/i

const metadataAccess: Rule = ({ args, program }) =>
  args.some((arg) => metadata.test(arg)) && !/^(?:echo|printf|grep|rg|git|sed|awk|cat|find)$/.test(program)
    ? ask("exfiltration", "access to the metadata service of a cloud machine")
    : undefined

const dataFlag = /^(?:-d|-F|-T|--data(?:-\w+)*|--form(?:-string)?|--upload-file|--json|--post-(?:file|data)|--body-(?:file|data)|--url-query)$/

/** Returns what a client is told to send: values of data flags, and the addresses. */
const sent = ({ args, fields }: Command) =>
  fields.filter(({ text }, index) => {
    const flag = args[index - 1] ?? ""
    return dataFlag.test(flag) ||
      /^(?:--(?:data|form|upload-file|post-|body-|json)[\w-]*=|-[dFT].)/.test(text) && !/^-[dFT]$/.test(text) ||
      !text.startsWith("-") && !/^(?:-H|--header|-o|-O|--output|-u|--user|-X|-A|-b|--cookie|-e|-x|-w|-m|--max-time|--oauth2-bearer|-K|--config|-E|--cert|--key|--cacert)$/.test(flag)
  })

const harmlessInput = new Set(["echo", "printf", "jq", "yq", "envsubst", "sed", "(", ")", "{", "}"])

const sensitiveFile = (path: string): boolean =>
  path !== "-" && (/^[~/]/.test(path) && !/^\/(?:tmp|workspace|app|src|home\/[^/]+\/[^.])/.test(path) || PathClass.isSecret(path) ||
    /secret|passw|credential|token|\bkeys?\b|dump|backup|wallet|history|private/i.test(path))

const upload: Rule = (command) => {
  const { fields, input, program } = command
  if (!clients.test(program)) return undefined
  const parts = sent(command)
  const addresses = fields.filter(({ shown }) => /^(?:https?:\/\/|[\w.-]+\.[a-z]{2,}(?:[:/]|$)|localhost)/i.test(shown))
  if (addresses.length > 0 && addresses.every(({ shown }) => local.test(shown))) return undefined
  if (
    parts.some(({ variables }) => variables.some((name) => secretName.test(name) && !/^(?:url|api_?(?:url|base|host|root|version))$|_url$|_host$|_base$/i.test(name)))
  ) {
    return ask("exfiltration", "sending of a variable that holds a secret")
  }
  if (parts.some(({ commands }) => commands.some(reveals))) return ask("exfiltration", "sending of data about this machine")
  if (input.some((source) => source.fields.some(({ variables }) => variables.some((name) => /(?:key|token|secret|passw(?:or)?d|credential)s?$/i.test(name))))) {
    return ask("exfiltration", "sending of a variable that holds a secret")
  }
  const positions = new Map(fields.map((field, index) => [field, index]))
  const files = parts.flatMap((part) => {
    const { shown } = part
    const at = /(?:^|=|-[dF])@([^;]+)/.exec(shown)?.[1] ?? /=<([^;]+)/.exec(shown)?.[1]
    if (at !== undefined) return [at]
    const long = /^--(?:upload-file|post-file|body-file)=(.+)$/.exec(shown)?.[1] ?? /^-T(.+)$/.exec(shown)?.[1]
    if (long !== undefined) return [long]
    const flag = command.args[(positions.get(part) ?? 0) - 1] ?? ""
    return /^(?:-T|--upload-file|--post-file|--body-file)$/.test(flag) ? [shown] : []
  })
  if (files.some(sensitiveFile)) return ask("exfiltration", "sending of a file")
  const fromInput = files.includes("-") || parts.some(({ text }) => /^@?-$/.test(text) || text.endsWith("@-"))
  return fromInput &&
    (input.length === 0 ? command.redirects.some(({ operator, target }) => operator === "<" && sensitiveFile(target.text)) : input.some(({ program }) => !harmlessInput.has(program)))
    ? ask("exfiltration", "sending of what a command writes")
    : undefined
}

/** Tells something about the machine or its secrets. */
const reveals = (command: Command): boolean =>
  /^(?:env|printenv|whoami|hostname|id|uname|history|ifconfig|ip|tar|base64|xxd|gpg|find|ls|ps|export|set)$/.test(command.program) ||
  /^(?:cat|head|tail|cut|grep|sed|awk|od|strings|gzip|openssl)$/.test(command.program) && (secrets(command).length > 0 || operands(command.args).some((path) => /^[~/]/.test(path)))

const sockets = /^(?:nc|ncat|netcat|nc\.traditional|nc\.openbsd|socat|telnet|ftp|tftp|lftp|openssl)$/

const stream: Rule = (command) => {
  const { args, input, program, redirects } = command
  if (!sockets.test(program)) return undefined
  if (program === "openssl" && args[0] !== "s_client") return undefined
  const listens = hasFlag(args, "lz", ["listen", "zero"]) && program !== "socat"
  if (
    args.some((arg) => /^(?:localhost|127\.0\.0\.1|::1)$/.test(arg) || /localhost|127\.0\.0\.1/.test(arg) && program === "openssl")
  ) {
    return undefined
  }
  const files = redirects.some(({ operator, target }) => operator === "<" && target.text !== "/dev/null")
  const says = input.some((source) => !harmlessInput.has(source.program) || source.fields.some(({ commands }) => commands.some(reveals)))
  if (program === "socat" && args.some((arg) => /^(?:file|open):/i.test(arg))) return ask("exfiltration", "sending of a file")
  if (files && (!listens || redirects.some(({ target }) => sensitiveFile(target.text)))) {
    return ask("exfiltration", "sending of a file")
  }
  return says ? ask("exfiltration", "sending of what a command writes") : undefined
}

/** Operands of a program that takes keys by flags (`-i key`): those are used, not sent. */
const withoutIdentity = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  operands(args.filter((_, index) => !/^-(?:i|F|o|e|-rsh)$/.test(args[index - 1] ?? "")))

const copy: Rule = (command) => {
  const { args, input, program } = command
  const targets = operands(args)
  if (/^(?:sftp|ftp|lftp)$/.test(program)) {
    const put = /\bput\s+(\S+)/.exec(command.stdin ?? "")?.[1]
    return put !== undefined && sensitiveFile(put) ? ask("exfiltration", "sending of a file") : undefined
  }
  if (/^(?:scp|rsync)$/.test(program)) {
    const last = targets.at(-1) ?? ""
    const remote = /^[^/\s]+:(?!\\)/.test(last) || last.startsWith("rsync://")
    return remote && withoutIdentity(args).slice(0, -1).some(sensitiveFile) ? ask("exfiltration", "sending of a file") : undefined
  }
  if (
    program === "ssh" &&
    (args.some((arg) => /^-[fN]*R/.test(arg)) || input.some(({ program }) => /^(?:tar|cat|env|printenv|gzip|dd|base64)$/.test(program)))
  ) {
    return ask("exfiltration", args.some((arg) => /^-[fN]*R/.test(arg)) ? "tunnel into this machine" : "sending of what a command writes")
  }
  if (
    /^(?:aws|gsutil|gcloud|az|rclone|s3cmd|mc|azcopy)$/.test(program) &&
    /\b(?:cp|sync|mv|put|copy|upload|rsync|move|mirror)\b/.test(targets.join(" ")) &&
    targets.some((path) => !/^\w+:/.test(path) && PathClass.isSecret(path))
  ) {
    return ask("exfiltration", "sending of a file")
  }
  if (program === "gh" && targets.slice(0, 2).join(" ").startsWith("gist create") && targets.slice(2).some(sensitiveFile)) {
    return ask("exfiltration", "sending of a file")
  }
  if (
    /^(?:mail|mailx|mutt|sendmail|swaks|msmtp)$/.test(program) &&
    (hasFlag(args, "aA", ["attach"]) || input.some(reveals) || command.redirects.some(({ operator, target }) => operator === "<" && sensitiveFile(target.text)))
  ) {
    return ask("exfiltration", "sending of a file")
  }
  return /^(?:ngrok|cloudflared|localtunnel|lt|bore|chisel|frpc)$/.test(program) &&
    !/^(?:version|help|update)$/.test(targets[0] ?? "version")
    ? ask("exfiltration", "tunnel into this machine")
    : undefined
}

/** A server for files that nobody should have. */
const served: Rule = ({ args, cwd, program }) =>
  /^(?:python[\d.]*|npx|http-server|serve|busybox)$/.test(program) && args.some((arg) => /http\.server|http-server|^serve$|httpd/.test(arg)) &&
    [...args, cwd ?? ""].some((path) => path !== "" && (PathClass.isSecret(path) || PathClass.territory(path) !== undefined))
    ? ask("exfiltration", "files with secrets served to others")
    : undefined

const names: Rule = ({ fields, program, input, wrappers }) => {
  if (!/^(?:dig|nslookup|host|drill|ping|ping6|resolvectl|getent)$/.test(program)) return undefined
  const data = fields.some(({ commands, text, variables }) => /\./.test(text) && (commands.length > 0 || variables.some((name) => secretName.test(name))))
  return data || wrappers.includes("xargs") && input.some(reveals)
    ? ask("exfiltration", "data in a name that is looked up")
    : undefined
}

const socketWrites: Rule = (command) =>
  written(command).some((path) => /^\/dev\/(?:tcp|udp)\/(?!localhost|127\.)/.test(path)) && !Wrappers.shells.has(command.program)
    ? ask("exfiltration", "sending of what a command writes")
    : undefined

/** Data that leaves. */
export const rules: ReadonlyArray<Rule> = [secretRead, ownSecrets, secretPrograms, metadataAccess, upload, stream, copy, served, names, socketWrites]
