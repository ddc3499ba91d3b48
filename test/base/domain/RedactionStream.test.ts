// A secret that is split over pieces is hidden as if the text had come whole.
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { redactText } from "../../../src/base/domain/Redaction.ts"
import * as RedactionStream from "../../../src/base/domain/RedactionStream.ts"
import { prop } from "../../support/property.ts"

const read = (pieces: ReadonlyArray<string>): string => {
  const stream = RedactionStream.make()
  return pieces.map(stream.push).join("") + stream.end()
}

const key = "sk-abcdefghijklmnopqrstuvwxyz0123456789AB"
const block = `-----BEGIN RSA PRIVATE KEY-----\n${"MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6\n".repeat(12)}-----END RSA PRIVATE KEY-----`

const texts = [
  `use ${key} for it`,
  `Authorization: Bearer ${key}\nnext line`,
  `curl -H "Authorization: Bearer abcdef0123456789abcdef" https://x`,
  `API_KEY=abcd1234efgh5678ijkl\nOTHER=1`,
  `password: "hunter2 and more"\nrest`,
  `{"api_key": "abcdefgh12345678abcdefgh", "b": 1}`,
  `"client_secret":\n  "abcdefgh12345678abcdefgh"`,
  `postgres://user:s3cr3tpass@db.example.com:5432/app done`,
  `Server=x; Password=hunter22; Database=y`,
  `run --api-key abcdefgh12345678abcdefgh --verbose`,
  `https://x.example/?token=abcdef123456&b=2 ok`,
  `ghp_abcdefghijklmnopqrstuvwxyz0123456789 and AKIAIOSFODNN7EXAMPLE end`,
  `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijk`,
  `cookie: session=abcdef; other=1\nok`,
  `before\n${block}\nafter`,
  `api_key: abc123def456\nand so on`,
  `中文里有一个${key}密钥`,
  "a paragraph about tokens and cookies, where the token is only mentioned and nothing is secret"
]

describe("RedactionStream", () => {
  it("gives for every split of a text what the whole text gives", () => {
    for (const text of texts) {
      const whole = redactText(text)
      for (let at = 0; at <= text.length; at++) {
        assert.strictEqual(read([text.slice(0, at), text.slice(at)]), whole, `split at ${at}`)
      }
      assert.strictEqual(read(Array.from(text)), whole, "one character at a time")
    }
  })

  it("shows ordinary prose as it comes", () => {
    const stream = RedactionStream.make()
    const shown = "The quick brown fox reads the token and goes on ".split(/(?<= )/).map(stream.push)
    assert.strictEqual(shown.join(""), "The quick brown fox reads the token and goes on ")
    assert.strictEqual(shown[0], "The ")
  })

  prop(
    "never shows a part of a key, however it is split",
    [Schema.Array(Schema.Union([Schema.String, Schema.Literals(texts)])), Schema.Array(Schema.Int)],
    ([parts, sizes]) => {
      const text = [...parts, key].join("\n")
      const pieces: Array<string> = []
      for (let at = 0, turn = 0; at < text.length; turn++) {
        const size = 1 + (Math.abs(sizes[turn % Math.max(1, sizes.length)] ?? 3) % 40)
        pieces.push(text.slice(at, at + size))
        at += size
      }
      const shown = read(pieces)
      assert.notInclude(shown, key.slice(8, 30))
      assert.notInclude(shown, "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMx")
    }
  )

  it("holds a bounded part of a line and of a key block that never end", () => {
    const stream = RedactionStream.make()
    let shown = 0
    for (let turn = 0; turn < 40; turn++) shown += stream.push("a".repeat(4_096)).length
    assert.isAtLeast(shown, 40 * 4_096 - 2 * RedactionStream.maxHeld)
    const endless = RedactionStream.make()
    const out = [
      `-----BEGIN PRIVATE KEY-----\n`,
      ...Array.from({ length: 64 }, () => "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMx\n".repeat(64))
    ]
      .map(endless.push)
      .join("")
    assert.notInclude(out + endless.end(), "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMx")
  })
})
