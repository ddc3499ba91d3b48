import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { SettingsSchema } from "../../src/base/config/SettingsSchema.ts"
import { selectCommandVariables } from "../../src/program/runtime/SettingsMapping.ts"
import { buildEnvironment } from "../../src/tools/mcp/StdioPipe.ts"
import * as StartedProcess from "../../src/tools/builtin/terminal/StartedProcess.ts"

const scrub = (
  environment: Record<string, string | undefined>,
  exceptions: Partial<StartedProcess.Exceptions> = {}
): Record<string, string> => StartedProcess.scrub(environment, { passThrough: [], reserved: [], ...exceptions })

describe("the environment of a command", () => {
  for (const name of [
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENROUTER_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "TOGETHER_API_KEY",
    "PERPLEXITY_API_KEY",
    "COHERE_API_KEY",
    "FIREWORKS_API_KEY",
    "XAI_API_KEY",
    "HF_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITHUB_APP_PRIVATE_KEY_PATH",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "DAYTONA_API_KEY",
    "HASS_TOKEN",
    "HERMES_LANGFUSE_SECRET_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "HASS_URL",
    "EMAIL_PASSWORD",
    "TELEGRAM_BOT_TOKEN",
    "TELEGRAM_HOME_CHANNEL",
    "DISCORD_ALLOWED_USERS",
    "SLACK_APP_TOKEN",
    "TAVILY_API_KEY",
    "LANGFUSE_SECRET_KEY",
    "NPM_TOKEN",
    "npm_config__authToken",
    "MY_SERVICE_SECRET",
    "client_secret",
    "DB_PASSWORD",
    "PGPASSWORD",
    "MYSQL_PWD",
    "REDISCLI_AUTH",
    "SSH_KEY_PASSPHRASE",
    "STRIPE_SECRET_KEY",
    "SOME_PRIVATE_KEY",
    "DJANGO_SECRET_KEY",
    "JWT_SECRET",
    "GITLAB_PAT",
    "_HERMES_FORCE_OPENAI_API_KEY"
  ]) {
    it(`leaves out ${name}`, () => {
      assert.notProperty(scrub({ [name]: "x" }), name)
    })
  }

  for (const name of [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TERM",
    "SHELL",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "TZ",
    "NODE_OPTIONS",
    "VIRTUAL_ENV",
    "SSH_AUTH_SOCK",
    "GIT_ASKPASS",
    "GPG_TTY",
    "KEYBOARD_LAYOUT",
    "TOKENIZERS_PARALLELISM",
    "HERMES_HOME",
    "HERMES_MAX_TOKENS",
    "PASSWORD_STORE_DIR",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "HTTPS_PROXY",
    "DATABASE_URL",
    "MONKEY"
  ]) {
    it(`keeps ${name}`, () => {
      assert.propertyVal(scrub({ [name]: "/usr/bin" }), name, "/usr/bin")
    })
  }

  it("lets named credentials of other programs through, but none that the runtime itself uses", () => {
    const environment = { NPM_TOKEN: "a", OPENAI_API_KEY: "b", ACME_LLM: "c", PATH: "/usr/bin" }
    const exceptions = { passThrough: ["NPM_TOKEN", "OPENAI_API_KEY", "ACME_LLM"], reserved: ["ACME_LLM"] }
    assert.deepStrictEqual(scrub(environment, exceptions), { NPM_TOKEN: "a", PATH: "/usr/bin" })
  })

  it("lets the settings name what commands get, and withholds what a route signs with, found by its name, protocol or host", () => {
    const variables = (settings: unknown) => selectCommandVariables(Schema.decodeUnknownSync(SettingsSchema)(settings))
    assert.deepStrictEqual(variables({ terminal: { env_passthrough: ["NPM_TOKEN"] } }), {
      passThrough: ["NPM_TOKEN"],
      reserved: []
    })
    const secrets = [
      "AWS_SECRET_ACCESS_KEY",
      "AWS_SESSION_TOKEN",
      "AWS_SECURITY_TOKEN",
      "AWS_CONTAINER_AUTHORIZATION_TOKEN"
    ]
    for (const route of [
      { provider: "aws-bedrock" },
      { api_mode: "bedrock_converse" },
      { base_url: "https://bedrock-runtime.eu-west-1.amazonaws.com" }
    ]) {
      assert.deepStrictEqual(variables({ model: route }).reserved, secrets, JSON.stringify(route))
      assert.deepStrictEqual(variables({ delegation: route }).reserved, secrets, JSON.stringify(route))
    }
    for (const route of [{ provider: "anthropic" }, { base_url: "https://s3.eu-west-1.amazonaws.com" }]) {
      assert.deepStrictEqual(variables({ model: route }).reserved, [], JSON.stringify(route))
    }
  })

  it("inherits no forced variable, and gives one of the settings without its prefix", () => {
    const environment = buildEnvironment(
      { _HERMES_FORCE_GITHUB_TOKEN: Redacted.make("a"), B: Redacted.make("b"), GITHUB_TOKEN: Redacted.make("c") },
      { _HERMES_FORCE_OPENAI_API_KEY: "never", PATH: "/usr/bin" }
    )
    assert.deepStrictEqual(environment, { PATH: "/usr/bin", GITHUB_TOKEN: "a", B: "b" })
  })

  it("gives a search path where there is none, and adds the standard directories to one that lacks them", () => {
    assert.strictEqual(scrub({})["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    assert.strictEqual(
      scrub({ PATH: "/opt/x:/bin" })["PATH"],
      "/opt/x:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin"
    )
    assert.strictEqual(scrub({ PATH: "/opt/x:/usr/bin" })["PATH"], "/opt/x:/usr/bin")
  })
})
