// Long text that is redacted in pieces is the text that is redacted at once, wherever a piece ends.
import { assert, describe, it } from "@effect/vitest"
import * as Redaction from "../../../src/base/domain/Redaction.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"

const size = 4_096

const held = "Zx9-held-by-the-runtime-7Qw".repeat(3)
const words = "The quick brown fox jumps over the lazy dog, and more words follow it. "
const block = (lines: number): string =>
  `-----BEGIN RSA PRIVATE KEY-----\n${"MIIEpAIBAAKCAQEA7f1Zk3c5bW8y2Q9mR4tV6xN0pL1sD2gH\n".repeat(lines)}-----END RSA PRIVATE KEY-----`

const fillers: Readonly<Record<string, string>> = {
  prose: words,
  lines: "a line of a log\n",
  minified: '{"id":1,"name":"some name"},',
  letters: "x",
  base64: "QUJD/REVG+0hJSktM",
  "names without values": "password policy key and a token bucket ",
  "wide characters": "日本語の文"
}

const secrets: Readonly<Record<string, string>> = {
  key: "sk-abcdefghijklmnopqrstuvwxyz0123456789AB",
  "assigned value": '"password": "correct horse battery staple"',
  "long quoted value": `"token": "${"a blank and 7 ".repeat(900)}"`,
  "password of an address": "postgres://ada:hunter2@db.example.com/main",
  header: "Authorization: Bearer abcdefghijklmnop1234567890",
  cookie: `Cookie: session=${"a b; ".repeat(1_000)}`,
  "long web token": `eyJ${"a".repeat(6_000)}.${"b".repeat(3_000)}.${"c".repeat(40)}`,
  "value on the next line": 'api_key:\n"abcdefghij1234567890abcdef"',
  block: block(10),
  "long block": block(400),
  held,
  "escaped line": String.raw`line\nghp_abcdefghijklmnopqrstuvwxyz0123456789`
}

const fill = (filler: string, length: number): string =>
  filler.repeat(Math.ceil(length / filler.length)).slice(0, length)

const makeRegistry = (): Secrets.Registry => {
  const made = Secrets.make()
  made.add(held)
  return made
}

describe("text that is redacted in pieces", () => {
  for (const [filling, filler] of Object.entries(fillers)) {
    it(`is the text that is redacted at once: ${filling}`, () => {
      const known = makeRegistry()
      for (const [name, secret] of Object.entries(secrets)) {
        for (const before of [size - secret.length, size - 40, size - 12, size - 1, size, size + 1, 2 * size - 25]) {
          const text = `${fill(filler, Math.max(0, before))}${secret}${fill(filler, 3 * size)}`
          const pieces = Array.from(Redaction.redactPieces(text, size, known))
          assert.strictEqual(pieces.join(""), Redaction.redactText(text, known), `${name} at ${before}`)
        }
      }
    })

    it(`has pieces of bounded length: ${filling}`, () => {
      const pieces = Array.from(Redaction.redactPieces(fill(filler, 100 * size), size))
      assert.strictEqual(pieces.join("").length, 100 * size)
      for (const piece of pieces) assert.isAtMost(piece.length, size)
      assert.isAtMost(pieces.length, 200)
    })
  }
})
