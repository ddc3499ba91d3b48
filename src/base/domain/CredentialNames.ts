/**
 * Names of variables that hold credentials. They are the variables that the runtime itself uses to reach providers,
 * tools and messengers, and names with a typical ending (`…_TOKEN`, `…_SECRET`, `…_PASSWORD`, `…_KEY`, …). A variable
 * that holds a path or a count is not a credential. Pure.
 *
 * Source: `hermes-llm.md` §19.10.
 */

const providers = [
  "AI_GATEWAY",
  "ALIBABA",
  "ANTHROPIC",
  "ARCEE",
  "AZURE_FOUNDRY",
  "AZURE_OPENAI",
  "CEREBRAS",
  "CLAUDE",
  "CLAUDE_CODE",
  "CODEX",
  "COHERE",
  "COPILOT",
  "DASHSCOPE",
  "DEEPINFRA",
  "DEEPSEEK",
  "FIREWORKS",
  "GEMINI",
  "GITHUB_COPILOT",
  "GLM",
  "GMI",
  "GOOGLE",
  "GOOGLE_GENERATIVE_AI",
  "GROK",
  "GROQ",
  "HERMES",
  "HF",
  "HUGGINGFACE",
  "KILOCODE",
  "KIMI",
  "LM",
  "MINIMAX",
  "MINIMAX_CN",
  "MISTRAL",
  "MOONSHOT",
  "NOUS",
  "NVIDIA",
  "OLLAMA",
  "OPENAI",
  "OPENCODE_GO",
  "OPENCODE_ZEN",
  "OPENROUTER",
  "PERPLEXITY",
  "QWEN",
  "STEPFUN",
  "TOGETHER",
  "VERTEX",
  "XAI",
  "XIAOMI",
  "ZAI",
  "Z_AI"
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

/** Names that end like a credential but hold no secret, such as paths, counts and prompts. */
const harmless: ReadonlyArray<RegExp> = [
  /^AWS_(?!BEARER_TOKEN_BEDROCK)/,
  /_(?:FILE|PATH|DIR|HOME|SOCK|SOCKET|ASKPASS|KEY_ID|COMMAND|TIMEOUT|TTL|LENGTH|LIMIT)$/,
  /(?:^|_)(?:MAX|MIN|NUM|COUNT|TOTAL)_(?:[A-Z0-9_]*_)?TOKENS?(?:_|$)/
]

const isMatching = (patterns: ReadonlyArray<RegExp>, name: string): boolean =>
  patterns.some((pattern) => pattern.test(name))

const forced = "_HERMES_FORCE_"

/**
 * Applies the variables that the settings set for one program. `_HERMES_FORCE_NAME` becomes `NAME` and overrides an
 * existing `NAME`. Inherited variables with that prefix are never passed to a program.
 */
export const applyForced = <A>(variables: Readonly<Record<string, A>>): Record<string, A> => {
  const entries = Object.entries(variables)
  return Object.fromEntries([
    ...entries.filter(([name]) => !name.startsWith(forced)),
    ...entries.flatMap(([name, value]) =>
      name.startsWith(forced) && name !== forced ? [[name.slice(forced.length), value] as const] : []
    )
  ])
}

/** Tests whether a name is reserved: no setting can pass such a variable to commands. */
export const isReserved = (name: string): boolean => isMatching(reservedPatterns, name.toUpperCase())

/** Tests whether a variable name is the name of a credential. */
export const isCredential = (name: string): boolean => {
  const upper = name.toUpperCase()
  return isMatching(reservedPatterns, upper) || (isMatching(familyPatterns, upper) && !isMatching(harmless, upper))
}

/** Reserved names whose values are not secret, such as addresses and identities. */
const plain =
  /_(?:URL|BASE|HOST|ENDPOINT|ORG|ORG_ID|ORGANIZATION|PROJECT|PROJECT_ID|USERS|CHANNEL|CHANNEL_NAME|ROOM|ACCOUNT|ADDRESS|APP_ID)$/

/**
 * Variables of the AWS credential chain that contain secrets. Commands may receive them, unless this program itself
 * signs requests with them.
 */
export const awsSecrets: ReadonlyArray<string> = [
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AWS_SECURITY_TOKEN",
  "AWS_CONTAINER_AUTHORIZATION_TOKEN"
]

/** Matches other names of secrets, which do not end like a typical credential. */
const further = /(?:^|_)(?:AUTHORIZATION|COOKIES?)$/

/**
 * Tests whether the variable with this name contains a secret, which the program hides from commands and masks in text.
 */
export const isSecretName = (name: string): boolean => {
  const upper = name.toUpperCase()
  return awsSecrets.includes(upper) || further.test(upper) || (isCredential(upper) && !plain.test(upper))
}
