/**
 * Sentences for questions: they explain why a command is dangerous beyond not being known to be read-only.
 *
 * **Gotchas**
 *
 * The list need not be complete: a sandbox stops these commands, and without a sandbox, every command that is not known
 * to be read-only leads to a question. A finding names dangers that an approval of a prefix may not cover, or that the
 * name of a program does not reveal: `chmod`, `kill` and `sh -c` have no explanation.
 */
import {
  makeFinding,
  type Command,
  type Finding,
  makeRowRule,
  parseNames,
  selectOperands,
  type Row,
  type Rule,
  listRedirectTargets
} from "../Command.ts"
import * as PathClass from "../PathClass.ts"
import { interpreters, shells } from "../EmbeddedCommands.ts"

const downloaders = parseNames("curl wget aria2c fetch http https xh nc ncat netcat socat scp ftp tftp telnet iwr irm")

const configurationChange = new RegExp(
  String.raw`^(?:config|model|mcp|plugins|hooks|tools|tenants|cron|gateway|setup|login|logout|trust|permissions) \S|` +
    // Answers to the agent's own questions.
    String.raw`^(?:sessions|cluster) answer\b|` +
    "--yolo|--accept-hooks"
)
const credentialOutput = new RegExp(
  "find-(?:generic|internet)-password|dump-keychain|--export-secret|auth token|print-access-token|" +
    "^credential fill|^(?:kv )?(?:read|get) "
)

const rows: ReadonlyArray<Row> = [
  [/^(?:sudo|su|runuser|gosu|su-exec|pkexec|doas)$/, /^/, "privilege", "rights of root or of another user"],
  [
    /^(?:hermes|hermes-effect)$/,
    configurationChange,
    "configuration tampering",
    "change of the agent's own configuration"
  ],
  [
    /^(?:docker|podman|nerdctl|docker-compose)$/,
    /--privileged|(?:--pid|--userns|--ipc|--uts)[= ]host|docker\.sock|(?:-v|--volume)[= ]?(?:\/|~|\/etc|\/root):/,
    "container",
    "container with access to the host"
  ],
  [
    /^git$/,
    /(?:^| )(?:-c|--config(?:-env)?|--exec(?:-path)?|--upload-pack|--receive-pack|-u|ext::\S*)(?:[= ]|$)|ext::/,
    "inline code",
    "program that is made to run another one"
  ],
  [
    /^(?:make|gmake|npm|pnpm|yarn|cargo|mvn|gradle)$/,
    /--eval|SHELL=|--script-shell|--config[= ]/,
    "inline code",
    "program that is made to run another one"
  ],
  [/^(?:security|gpg|gh|gcloud|vault|git)$/, credentialOutput, "exfiltration", "reading of credentials"],
  [
    /^(?:nc|ncat|netcat|socat)$/,
    /(?:^| )(?:-[a-z]*[ec]|--(?:sh-)?exec)(?: |$)|\b(?:exec|system):/i,
    "remote code",
    "shell over the network"
  ],
  [
    /^(?:pip3?|uvx?|npx|bunx|npm|pnpm|yarn|deno)$/,
    /^(?:(?:install|i|add|run|dlx) )?(?:-(?!-?(?:index|extra|find|i ))[\w-]+ )*(?:git\+)?https?:\/\//,
    "remote code",
    "program from an address that is run or installed at once"
  ]
]

const writesFiles = /^(?:tee|sponge|truncate|cp|mv|install|ln|sed|gsed|perl|dd)$/

const findConfigurationChange: Rule = (command) => {
  const { args, cwd, program } = command
  const paths = [
    ...listRedirectTargets(command),
    ...(writesFiles.test(program) ? args.map((arg) => arg.replace(/^of=/, "")) : [])
  ]
  return paths.some((path) => PathClass.isAgentFile(path, cwd))
    ? makeFinding("configuration tampering", "change of the agent's own configuration")
    : undefined
}

/** Programs that do not show the contents of a file, or only describe it. */
export const blind = parseNames(
  "ls stat test [ [[ file du echo printf hermes cd mkdir pushd touch chmod chown wc rm rmdir git"
)
/** Secret files whose reading is routine work. */
const daily = /(?:^|\/)(?:\.env[^/]*|\.npmrc|\.envrc|[^/]*\.(?:pem|crt)|secrets?\.[a-z]+|credentials\.[a-z]+)$/i
const working = /^(?:grep|egrep|rg|source|\.|diff|cmp|vi|vim|nano|sed|awk|cp|mv|tee|openssl|sort|jq|yq)$/

/** Returns the paths that a command may read: its operands, values of flags, and its input. */
export const listSources = ({ fields, redirects }: Pick<Command, "fields" | "redirects">): ReadonlyArray<string> => [
  ...fields.flatMap(({ shown }) => {
    const value = shown.slice(Math.max(shown.lastIndexOf("="), shown.lastIndexOf("@")) + 1)
    return value === shown ? [shown] : [shown, value]
  }),
  ...redirects.filter(({ operator }) => operator === "<" || operator === "<>").map(({ target }) => target.shown)
]

const findCredentialRead: Rule = (command) => {
  const { args, cwd, program } = command
  const adds = program === "git" && args.includes("add")
  if (blind.has(program) && !adds) return undefined
  const paths = listSources(command)
  if (
    paths.some((path) => PathClass.isOwnSecretFile(path, cwd)) ||
    (interpreters.test(program) && args.some(PathClass.hasOwnSecretName))
  ) {
    return makeFinding("exfiltration", "reading of the agent's own credentials")
  }
  return paths.some((path) => PathClass.isSecret(path, cwd) && !(working.test(program) && daily.test(path)))
    ? makeFinding("exfiltration", "reading of credentials")
    : undefined
}

const isRunner = (program: string): boolean =>
  shells.has(program) || interpreters.test(program) || /^(?:source|\.|eval)$/.test(program)

const overNetwork = makeFinding("remote code", "shell over the network")
const download = makeFinding("remote code", "download that is run at once")

const hasDownload = (commands: ReadonlyArray<Command>): boolean =>
  commands.some(({ program }) => downloaders.has(program))

const findPipedDownload: Rule = ({ called, fields, input, program, redirects }) => {
  if (hasDownload(called.commands)) return download
  if (/^(?:nc|ncat|netcat|telnet|socat)$/.test(program) && input.some(({ program }) => shells.has(program)))
    return overNetwork
  const inner = [...fields.flatMap(({ commands }) => commands), ...redirects.flatMap(({ target }) => target.commands)]
  if (hasDownload(input) && inner.some(({ program }) => isRunner(program))) return download
  if (!isRunner(program)) return /^g?make$/.test(program) && hasDownload(inner) ? download : undefined
  if (redirects.some(({ target }) => /^\/dev\/(?:tcp|udp)\//.test(target.text))) return overNetwork
  return hasDownload([...input, ...inner]) ? download : undefined
}

const toBaseName = (path: string): string =>
  path
    .replace(/[?#].*$/s, "")
    .split("/")
    .at(-1) ?? ""

/** Returns the files that a command downloads, by name only. */
const listSavedFiles = (command: Command): ReadonlyArray<string> => {
  const { args, input, program } = command
  const [isDownload, isFed] = [downloaders.has(program), hasDownload(input)]
  const named = isDownload
    ? args.filter((_, index) => /^(?:-[a-zA-Z]*o|--output(?:-document)?|-O)$/.test(args[index - 1] ?? ""))
    : []
  const isBare =
    (program === "tee" && isFed) || (isDownload && (program === "wget" || args.some((arg) => /^-[a-zA-Z]*O/.test(arg))))
  return [
    ...(isDownload || isFed ? listRedirectTargets(command) : []),
    ...named,
    ...(isBare ? selectOperands(args) : [])
  ].map(toBaseName)
}

/** Finds a download whose file is run in the same line. */
export const findRunDownload = (commands: ReadonlyArray<Command>): Finding | undefined => {
  const files = new Set<string>()
  const isRun = ({ args, called: { text }, program }: Command): boolean =>
    files.size > 0 &&
    [...(text.includes("/") ? [text] : []), ...(isRunner(program) ? selectOperands(args) : [])].some((name) =>
      files.has(toBaseName(name))
    )
  for (const command of commands) {
    if (isRun(command)) return download
    for (const file of listSavedFiles(command)) files.add(file)
  }
  return undefined
}

/** Rules for explanations. */
export const rules: ReadonlyArray<Rule> = [
  findCredentialRead,
  findConfigurationChange,
  findPipedDownload,
  makeRowRule(rows)
]
