import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as KeyShapes from "../../../src/base/domain/KeyShapes.ts"
import { isSensitiveKey, marker, mask, redactText, redactValue } from "../../../src/base/domain/Redaction.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import { prop } from "../../support/property.ts"

const from = (alphabet: string, minimum: number, maximum = minimum + 30): Arbitrary.Arbitrary<string> =>
  Arbitrary.map(
    Arbitrary.array(
      Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: alphabet.length - 1 }))),
      { minLength: minimum, maxLength: maximum }
    ),
    (indices) => indices.map((index) => alphabet[index]).join("")
  )

const digits = "0123456789"
const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
const word = `${upper}${upper.toLowerCase()}${digits}`
const token = `${word}_-`

/** Text that secrets are found in, some of it made to upset a pattern. */
const surroundings = [
  "",
  " ",
  "\n",
  "\t",
  '"',
  "'",
  "`",
  "(",
  "key=",
  "key: ",
  "the key is ",
  '{"content":"',
  "\\n",
  '\\"',
  "\u001b[31m",
  "export X=",
  "https://example.com/?x=1&y=",
  "--flag ",
  "| ",
  "12|",
  "- ",
  "$",
  "…",
  "***"
]
const after = [
  "",
  " ",
  "\n",
  '"',
  "'",
  "`",
  ")",
  ",",
  ".",
  "; ",
  "\\n",
  '\\"',
  "}",
  "\u001b[0m",
  " and more text",
  "&z=1"
]

const oneOf = (values: ReadonlyArray<string>): Arbitrary.Arbitrary<string> => Arbitrary.schema(Schema.Literals(values))

const prefixed = (prefix: string, body: Arbitrary.Arbitrary<string>) => Arbitrary.map(body, (text) => prefix + text)

const shapes: Record<string, Arbitrary.Arbitrary<string>> = {
  OpenAI: prefixed("sk-", from(word, 32)),
  "OpenAI project": prefixed("sk-proj-", from(token, 40)),
  Anthropic: prefixed("sk-ant-api03-", from(token, 60)),
  OpenRouter: prefixed("sk-or-v1-", from("abcdef0123456789", 64, 64)),
  AWS: prefixed("AKIA", from(upper + digits, 16, 16)),
  "AWS session": prefixed("ASIA", from(upper + digits, 16, 16)),
  GitHub: prefixed("ghp_", from(word, 36, 36)),
  "GitHub OAuth": prefixed("gho_", from(word, 36, 36)),
  "GitHub fine grained": prefixed("github_pat_", from(word, 60)),
  "Slack bot": prefixed("xoxb-", from(digits, 24)),
  "Slack user": prefixed("xoxp-", from(digits, 24)),
  Google: prefixed("AIza", from(token, 35, 35)),
  "Hugging Face": prefixed("hf_", from(word, 34, 34)),
  Groq: prefixed("gsk_", from(word, 52, 52)),
  Stripe: prefixed("sk_live_", from(word, 24)),
  JWT: Arbitrary.map(
    Arbitrary.all([from(token, 20), from(token, 30), from(token, 43, 43)]),
    (parts) => `eyJ${parts.join(".")}`
  ),
  Telegram: prefixed("1234567890:", from(token, 35, 35))
}
/** Whether eight characters of a secret on end can still be read. */
const leaks = (secret: string, shown: string): boolean => {
  for (let at = 0; at + 8 <= secret.length; at++) if (shown.includes(secret.slice(at, at + 8))) return true
  return false
}

describe("Redaction.redactText", () => {
  for (const [name, shape] of Object.entries(shapes)) {
    prop(
      `no ${name} key survives, wherever it stands`,
      [oneOf(surroundings), shape, oneOf(after)],
      ([left, key, right]) => {
        const shown = redactText(left + key + right)
        assert.isFalse(leaks(key, shown), `${JSON.stringify(left + key + right)} → ${JSON.stringify(shown)}`)
        assert.strictEqual(redactText(shown), shown)
      }
    )
  }

  it("T169 a long key keeps its ends (fewer characters than the case says), a short one nothing", () => {
    assert.strictEqual(redactText(`key sk-${"a1".repeat(18)}z9 end`), "key sk-a…z9 end")
    assert.strictEqual(mask("abcdefgh1234"), "***")
    assert.strictEqual(redactText("PASSWORD=abc123"), "PASSWORD=***")
  })

  it("reads a long text once, though several exporters ask for it", () => {
    for (const length of [1_000, 100_000, 2_000_000, 5_000_000]) {
      const registry = Secrets.make()
      let reads = 0
      const counting = {
        ...registry,
        mask: (text: string) => {
          reads++
          return registry.mask(text)
        }
      }
      const text = `PASSWORD=abc123 ${"word ".repeat(length / 5)}`
      const once = redactText(text, counting)
      assert.isTrue(once.startsWith("PASSWORD=*** word"))
      assert.strictEqual(redactText(`${text.slice(0, 5)}${text.slice(5)}`, counting), once)
      assert.strictEqual(reads, 1, `${length} characters`)
    }
  })

  it("hides the address of an Office webhook, with a name that is too long too", () => {
    const path = `webhookb2/${"a1b2c3d4-".repeat(6)}@${"f0e1d2c3".repeat(4)}/IncomingWebhook/${"0123456789abcdef".repeat(2)}`
    for (const name of ["contoso", "Xcontoso", "a".repeat(100)]) {
      const shown = redactText(`see https://${name}.webhook.office.com/${path} now`)
      assert.notInclude(shown, "b2c3d4")
      assert.isTrue(shown.endsWith(" now"))
    }
  })

  it("searches for addresses by literals, so that a long word is read once", () => {
    const addresses = KeyShapes.addresses.split(/\|(?=[^()]*(?:\(|$))/u)
    assert.isAtLeast(addresses.length, 5)
    for (const address of addresses) assert.match(address, /^[a-z]{5}/u)
  })

  it("hides a PEM private key, whole or cut off, raw or inside JSON", () => {
    const body = `MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n`.repeat(20)
    const pem = `-----BEGIN RSA PRIVATE KEY-----\n${body}-----END RSA PRIVATE KEY-----`
    assert.strictEqual(redactText(`a\n${pem}\nb`), "a\n-----BEGIN RSA PRIVATE KEY-----***\nb")
    assert.notInclude(redactText(JSON.stringify({ content: pem })), "MIIE")
    assert.notInclude(redactText(pem.slice(0, 300)), "MIIE")
    assert.notInclude(
      redactText(
        pem
          .split("\n")
          .map((line, index) => `${index + 1}|${line}`)
          .join("\n")
      ),
      "MIIE"
    )
    const code = `if (text.startsWith("-----BEGIN PRIVATE KEY-----")) return text.endsWith("-----END PRIVATE KEY-----")`
    assert.strictEqual(redactText(code), code)
    const certificate = pem.replaceAll("RSA PRIVATE KEY", "CERTIFICATE")
    assert.strictEqual(redactText(certificate), certificate)
  })

  it("hides credentials in headers, addresses and connection strings", () => {
    const cases: Record<string, string> = {
      "Authorization: Bearer abcdefgh": "Authorization: Bearer ***",
      "curl -H 'authorization: token abcdef123'": "curl -H 'authorization: token ***'",
      '"Authorization": "Basic dXNlcjpwYXNz"': '"Authorization": "Basic ***"',
      "sent with bearer 8f14e45fceea167a": "sent with bearer ***",
      "Cookie: session=abc; theme=dark": "Cookie: session=***",
      "Set-Cookie: id=a3fWa; Path=/": "Set-Cookie: id=***",
      "X-Api-Key: 12345abc": "X-Api-Key: ***",
      "postgres://app:hunter2@db:5432/app": "postgres://app:***@db:5432/app",
      "redis://:p4ss@cache:6379": "redis://:***@cache:6379",
      "https://host/path?api_key=abc123&page=2": "https://host/path?api_key=***&page=2",
      "https://b.s3.amazonaws.com/k?X-Amz-Signature=fe5f80": "https://b.s3.amazonaws.com/k?X-Amz-Signature=***",
      '"Server=db;Password=hunter2;Encrypt=true"': '"Server=db;Password=***;Encrypt=true"',
      "tool --api-key abc12345 --out x": "tool --api-key *** --out x"
    }
    for (const [before, shown] of Object.entries(cases)) {
      assert.strictEqual(redactText(before), shown)
      assert.strictEqual(redactText(shown), shown)
    }
  })

  it("hides values assigned to names of secrets", () => {
    const cases: Record<string, string> = {
      "export OPENAI_API_KEY=abc": "export OPENAI_API_KEY=***",
      "STRIPE_KEY=abcd1234": "STRIPE_KEY=***",
      '{"api_key":"abcd1234","password":"pass"}': '{"api_key":"***","password":"***"}',
      '{\\"client_secret\\":\\"pass\\"}': '{\\"client_secret\\":\\"***\\"}',
      '{"password":"a\\"b c"}': '{"password":"***"}',
      "password = 'hunter2'": "password = '***'",
      "db:\n  password: hunter2 # old\n  user: app": "db:\n  password: *** # old\n  user: app"
    }
    for (const [before, shown] of Object.entries(cases)) {
      assert.strictEqual(redactText(before), shown)
      assert.strictEqual(redactText(shown), shown)
    }
  })

  it("leaves code, counters, look-ups and prose alone", () => {
    const kept = [
      "const token = lexer.next()",
      "password: string",
      "readonly apiKey: Redacted.Redacted<string>",
      "secret: Uint8Array",
      'api_key = os.environ["OPENAI_API_KEY"]',
      "apiKey: process.env.OPENAI_API_KEY",
      "TOKEN=$(cat file)",
      "Authorization: `Bearer ${token}`",
      '"max_tokens": 4096',
      "total_tokens=1234",
      "MAX_TOKENS=4096",
      "usage: 123456789",
      "basic understanding of bearer authentication",
      "the token 12345678 is here",
      "api_key: ollama",
      '"type": "password"',
      "git+https://github.com/a/b",
      "http://localhost:8080/a@b",
      "task-force-with-a-long-name",
      "sk-or-key1",
      "API_KEY=<your key>",
      'password: "<password>"',
      "postgres://app:{password}@db",
      "PASSWORD=%s",
      'token: "https://id.example.com/token"',
      "+12345678901",
      "KEYBOARD=us",
      "SORT_KEY=created_at"
    ]
    for (const text of kept) assert.strictEqual(redactText(text), text)
  })

  const fragments = [
    ...surroundings,
    ...after,
    "sk-",
    "ghp_abcdefghij",
    "eyJhbGciOi",
    ".eyJzdWIi",
    "SG.",
    "api_key",
    "token",
    "password",
    "secret=",
    ": ",
    "=",
    '"',
    "'",
    "\\",
    "://",
    "user:",
    "@",
    "Bearer ",
    "Authorization: ",
    "Cookie: ",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "abc123def456",
    "Password=",
    ";",
    "?",
    "&",
    "--",
    "1234567890:",
    "AKIAIOSFODNN7EXAMPLE",
    "***",
    "sk-a…z9",
    "…",
    "\u{1f600}",
    "\ud83d"
  ]
  prop(
    "is idempotent and never throws, on anything",
    [Arbitrary.array(oneOf(fragments), { maxLength: 14 })],
    ([parts]) => {
      const shown = redactText(parts.join(""))
      assert.strictEqual(redactText(shown), shown)
    },
    { arbitrary: { runs: 5000 } }
  )

  it("takes megabytes of anything", () => {
    const units = [
      "a",
      "A",
      "1",
      "-",
      "\\",
      '"',
      " ",
      "token=",
      'token="',
      "eyJ",
      "eyJ-",
      "sk-",
      "://",
      "http://a:b",
      "-----BEGIN PRIVATE KEY-----",
      "--a",
      "bearer ",
      "&a",
      "12345678:",
      "SG.a",
      "password: ",
      '\\"api_key\\": \\"'
    ]
    for (const unit of units) {
      const text = unit.repeat(1_000_000 / unit.length)
      const shown = redactText(text)
      assert.isAtMost(shown.length, text.length * 2)
    }
  })
})

describe("Redaction.isSensitiveKey", () => {
  it("knows the families in any spelling", () => {
    const yes = [
      "api_key",
      "apiKey",
      "APIKEY",
      "X-API-KEY",
      "Api-Key",
      "openai_api_key",
      "api_keys",
      "authorization",
      "Proxy-Authorization",
      "Cookie",
      "set-cookie",
      "token",
      "access_token",
      "refreshToken",
      "ID_TOKEN",
      "api_tokens",
      "secret",
      "client_secret",
      "clientSecret",
      "aws_secret_access_key",
      "password",
      "PASSWD",
      "passphrase",
      "private_key",
      "privateKey",
      "PRIVATE KEY",
      "credentials",
      "api_key_2"
    ]
    assert.deepStrictEqual(
      yes.filter((key) => !isSensitiveKey(key)),
      []
    )
  })

  it("never takes a counter or a description for a secret", () => {
    const no = [
      "max_tokens",
      "total_tokens",
      "maxTokens",
      "input_tokens",
      "tokens",
      "token_count",
      "token_type",
      "usage",
      "tokenizer",
      "key",
      "keys",
      "public_key",
      "api_key_env",
      "key_env",
      "password_hint",
      "cookie_policy",
      "authorization_url",
      "secret_name",
      "author",
      "session_id"
    ]
    assert.deepStrictEqual(no.filter(isSensitiveKey), [])
  })
})

describe("Redaction.redactValue", () => {
  it("hides by key and by shape, and keeps the rest", () => {
    const value = {
      apiKey: "x",
      headers: { Authorization: ["Bearer x"], accept: "*/*" },
      usage: { total_tokens: 3, token: 4 },
      require_password: true,
      nested: [{ note: `use sk-${"b".repeat(30)} please`, at: new Date(0) }],
      secret: null
    }
    assert.deepStrictEqual(redactValue(value), {
      apiKey: marker,
      headers: { Authorization: marker, accept: "*/*" },
      usage: { total_tokens: 3, token: 4 },
      require_password: true,
      nested: [{ note: "use sk-b…bb please", at: new Date(0) }],
      secret: marker
    })
  })

  it("returns its argument itself when there is nothing to hide", () => {
    const value = { a: [1, { b: "text" }], max_tokens: 3 }
    assert.strictEqual(redactValue(value), value)
    const secret = { list: [value, { password: "x" }] }
    const shown = redactValue(secret)
    assert.deepStrictEqual(shown, { list: [value, { password: marker }] })
    assert.strictEqual(redactValue(shown), shown)
    assert.strictEqual(secret.list[1], secret.list[1])
  })

  it("reads errors, maps, headers, URLs and Redacted values", () => {
    const error = new Error("Authorization: Bearer abcdef12", { cause: { password: "x" } })
    const shown = redactValue({
      error,
      map: new Map([
        ["token", "x"],
        ["a", "b"]
      ]),
      headers: new Headers({ "x-api-key": "x" }),
      url: new URL("https://u:p@h/"),
      key: Redacted.make("x"),
      set: new Set(["PASSWORD=x"])
    })
    assert.notInclude(JSON.stringify(shown), "abcdef12")
    assert.deepInclude(shown, {
      map: { token: marker, a: "b" },
      headers: { "x-api-key": marker },
      url: "https://u:***@h/",
      key: marker,
      set: ["PASSWORD=***"]
    })
  })

  it("ends on cycles, depth, breadth and hostile objects", () => {
    const cycle: Record<string, unknown> = { password: "x" }
    cycle["self"] = cycle
    assert.deepStrictEqual(redactValue(cycle), { password: marker, self: "<circular>" })
    let deep: unknown = { password: "x" }
    for (let level = 0; level < 100_000; level++) deep = { deep }
    assert.include(JSON.stringify(redactValue(deep)), "<depth limit>")
    assert.include(
      JSON.stringify(
        redactValue(
          Array.from({ length: 20 }, () => ({})),
          { nodes: 10 }
        )
      ),
      "<size limit>"
    )
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no")
        },
        has: () => {
          throw new Error("no")
        },
        ownKeys: () => {
          throw new Error("no")
        },
        getPrototypeOf: () => {
          throw new Error("no")
        }
      }
    )
    assert.deepStrictEqual(
      redactValue({
        hostile,
        get bad(): string {
          throw new Error("no")
        }
      }),
      "<unreadable>"
    )
    assert.deepStrictEqual(redactValue([hostile]), ["<unreadable>"])
  })

  prop("is idempotent on any JSON", [Schema.Json], ([json]) => {
    const shown = redactValue(json)
    assert.deepStrictEqual(redactValue(shown), shown)
  })
})

describe("texts that were redacted before", () => {
  it("are redacted anew for a value that is registered later, and by another registry", () => {
    const secrets = Secrets.make()
    const value = "hunter2-Correct-Horse-9"
    const text = `${"The word of the day is ".repeat(5)}${value}.`
    assert.strictEqual(redactText(text, secrets), text)
    secrets.add(value)
    assert.notInclude(redactText(text, secrets), value)
    assert.strictEqual(redactText(text, Secrets.make()), text)
  })

  it("are the same, however many others came between", () => {
    const secrets = Secrets.make()
    const key = `sk-${"a1B2c3D4".repeat(6)}`
    const texts = Array.from({ length: 300 }, (_, n) => `${n} ${"words and ".repeat(800)}${key}`)
    const first = texts.map((text) => redactText(text, secrets))
    assert.isTrue(first.every((text) => !text.includes(key)))
    assert.deepStrictEqual(
      texts.map((text) => redactText(text, secrets)),
      first
    )
    assert.deepStrictEqual(
      texts.toReversed().map((text) => redactText(text, secrets)),
      first.toReversed()
    )
  })
})
