/**
 * The environment of a command: that of this program without credentials, so that a command which prints or sends its
 * environment gives nothing away. Pure.
 *
 * **Details**
 *
 * Left out are what the runtime itself uses to reach providers, tools and messengers ({@link isReserved}), and every name
 * of a credential family (`…_TOKEN`, `…_SECRET`, `…_PASSWORD`, `…_KEY`, …). A name of a family can be let through by the
 * settings, a reserved one never. General `AWS_…` variables stay, because command line tools need them; so do names that
 * only point at a place (`…_FILE`, `…_PATH`, `SSH_AUTH_SOCK`) or count (`MAX_TOKENS`).
 *
 * **Gotchas**
 *
 * A value is never looked at: a password inside of a `DATABASE_URL` stays. The commands can still read the user's files;
 * this keeps secrets from leaking by accident, it does not confine anything.
 *
 * Source: `hermes-llm.md` §19.10.
 *
 * @since 0.1.0
 */

const providers = [
  "AI_GATEWAY", "ALIBABA", "ANTHROPIC", "ARCEE", "AZURE_FOUNDRY", "AZURE_OPENAI", "CEREBRAS", "CLAUDE", "CLAUDE_CODE", "CODEX",
  "COHERE", "COPILOT", "DASHSCOPE", "DEEPINFRA", "DEEPSEEK", "FIREWORKS", "GEMINI", "GITHUB_COPILOT", "GLM", "GMI", "GOOGLE",
  "GOOGLE_GENERATIVE_AI", "GROK", "GROQ", "HERMES", "HF", "HUGGINGFACE", "KILOCODE", "KIMI", "LM", "MINIMAX", "MINIMAX_CN",
  "MISTRAL", "MOONSHOT", "NOUS", "NVIDIA", "OLLAMA", "OPENAI", "OPENCODE_GO", "OPENCODE_ZEN", "OPENROUTER", "PERPLEXITY",
  "QWEN", "STEPFUN", "TOGETHER", "VERTEX", "XAI", "XIAOMI", "ZAI", "Z_AI"
].join("|")

const reservedPatterns: ReadonlyArray<RegExp> = [
  new RegExp(`^(?:${providers})_(?:API_KEY|API_KEYS|KEY|TOKEN|AUTH_TOKEN|OAUTH_TOKEN|ACCESS_TOKEN|SECRET)(?:_\\d+)?$`),
  new RegExp(`^(?:${providers})_(?:BASE_URL|API_BASE|API_BASE_URL|API_HOST|ENDPOINT)$`),
  /^OPENAI_(?:ORG|ORG_ID|ORGANIZATION|PROJECT|PROJECT_ID)$/,
  /^(?:TELEGRAM|DISCORD|SLACK|SIGNAL|WHATSAPP|MATRIX|MATTERMOST|EMAIL|SMS|GATEWAY)_(?:BOT_TOKEN|APP_TOKEN|ACCESS_TOKEN|SIGNING_SECRET)$/,
  /^(?:TELEGRAM|DISCORD|SLACK|SIGNAL|WHATSAPP|MATRIX|MATTERMOST|EMAIL|SMS|GATEWAY)_(?:ALLOWED_USERS|ALLOW_ALL_USERS)$/,
  /^(?:TELEGRAM|DISCORD|SLACK|SIGNAL|WHATSAPP|MATRIX|MATTERMOST|EMAIL|SMS)_HOME_(?:CHANNEL|CHANNEL_NAME|ROOM)$/,
  /^SIGNAL_(?:ACCOUNT|HTTP_URL)$/,
  /^EMAIL_(?:ADDRESS|PASSWORD|IMAP_HOST|SMTP_HOST)$/,
  /^HASS_(?:URL|TOKEN)$/,
  /^(?:GH|GITHUB)_TOKEN$/,
  /^GITHUB_APP_/,
  /^MODAL_TOKEN_(?:ID|SECRET)$/,
  /^DAYTONA_/,
  /^(?:HERMES_)?LANGFUSE_(?:SECRET|PUBLIC)_KEY$/,
  /^OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS$/,
  /^AWS_BEARER_TOKEN_BEDROCK$/,
  /^_HERMES_FORCE_/
]

const familyPatterns: ReadonlyArray<RegExp> = [
  /(?:^|_)(?:TOKEN|TOKENS|SECRET|SECRETS|PASSWORD|PASSWORDS|PASSWD|PASSPHRASE|CREDENTIAL|CREDENTIALS|APIKEY|PAT|JWT)(?:_|$)/,
  /(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY)$/,
  /_(?:KEY|KEYS|PWD|AUTH)$/,
  /(?:^|_)(?:API|PRIVATE|ACCESS|SIGNING|ENCRYPTION)_?KEYS?_/,
  /^SSHPASS$/
]

/** Names of a family that hold no secret: where something is, how much of it, how it is asked for. */
const harmless: ReadonlyArray<RegExp> = [
  /^AWS_(?!BEARER_TOKEN_BEDROCK)/,
  /_(?:FILE|PATH|DIR|HOME|SOCK|SOCKET|ASKPASS|KEY_ID|COMMAND|TIMEOUT|TTL|LENGTH|LIMIT)$/,
  /(?:^|_)(?:MAX|MIN|NUM|COUNT|TOTAL)_(?:[A-Z0-9_]*_)?TOKENS?(?:_|$)/
]

const matches = (patterns: ReadonlyArray<RegExp>, name: string): boolean => patterns.some((pattern) => pattern.test(name))

/** Names that no setting lets through. */
export const isReserved = (name: string): boolean => matches(reservedPatterns, name.toUpperCase())

/** Whether the name is one of a credential. */
export const isCredential = (name: string): boolean => {
  const upper = name.toUpperCase()
  return matches(reservedPatterns, upper) || (matches(familyPatterns, upper) && !matches(harmless, upper))
}

const standardPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]

/** The search path with the standard directories after the given ones, when none of the essential ones is there. */
const searchPath = (path: string | undefined): string => {
  const given = path === undefined ? [] : path.split(":").filter((entry) => entry !== "")
  return given.includes("/usr/bin") ? given.join(":") : [...new Set([...given, ...standardPath])].join(":")
}

/** Exceptions that the configuration makes, by exact name. */
export interface Exceptions {
  /** Variables of a credential family that commands may have. */
  readonly passThrough: ReadonlyArray<string>
  /** Further variables that commands never have, such as the `key_env` of a custom provider. */
  readonly reserved: ReadonlyArray<string>
}

/** See the module. */
export const scrub = (
  environment: Readonly<Record<string, string | undefined>>,
  { passThrough, reserved }: Exceptions
): Record<string, string> => {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || reserved.includes(name)) continue
    if (isCredential(name) && (isReserved(name) || !passThrough.includes(name))) continue
    out[name] = value
  }
  out["PATH"] = searchPath(environment["PATH"])
  return out
}
