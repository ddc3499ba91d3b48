// What a runtime keeps secret is found in text whatever was done to it; keys of vendors are known by their shape;
// ordinary text stays as it is.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { readdirSync, readFileSync } from "node:fs"
import * as Redaction from "../../../src/base/domain/Redaction.ts"
import * as RedactionStream from "../../../src/base/domain/RedactionStream.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import { encoded, foreignKeys, plantedKeys } from "../../support/plantedKeys.ts"

const holding = (...values: ReadonlyArray<string>): Secrets.Registry => {
  const registry = Secrets.make()
  for (const value of values) registry.add(value)
  return registry
}

/** The longest part of `value` that stands in `text`. */
const leaked = (text: string, value: string): number => {
  let longest = 0
  for (let from = 0; from < value.length; from++) {
    while (from + longest < value.length && text.includes(value.slice(from, from + longest + 1))) longest++
  }
  return longest
}

const bare = (text: string): string => text.replaceAll(/\s/g, "")

describe("Secrets", () => {
  it("knows every kind of key by their shape, alone and inside of text", () => {
    assert.isAtLeast(plantedKeys.length, 95)
    const frames = [
      (key: string) => key,
      (key: string) => `use "${key}" here`,
      (key: string) => `\\n${key}\\n`,
      (key: string) => `x: ${key},\nnext`,
      (key: string) => `see (${key}).`
    ]
    const missed = plantedKeys.flatMap(([kind, key]) =>
      frames
        .filter((frame) => leaked(Redaction.redactText(frame(key)), key) > Math.max(8, key.length / 2))
        .map(() => kind)
    )
    assert.deepStrictEqual(Array.from(new Set(missed)), [])
    const keys = plantedKeys.filter(([, key]) => Redaction.redactKeys(key).includes(key)).map(([kind]) => kind)
    assert.deepStrictEqual(keys, [])
  })

  it("finds keys of every kind at every offset of a text", () => {
    const prose = "a bc def ghij klmno pqrstu vwxyzab cdefghij klm"
    const missed = plantedKeys.flatMap(([kind, key]) =>
      Array.from(prose, (_, length) => `${prose.slice(0, length)} ${key} and more`)
        .filter((text) => Redaction.redactKeys(text).includes(key))
        .map((text) => `${kind} at ${text.indexOf(key)}`)
    )
    assert.deepStrictEqual(missed, [])
  })

  it("finds a value that it holds in every form, for every kind", () => {
    const missed = plantedKeys.flatMap(([kind, key]) => {
      const secrets = holding(key)
      return Object.entries(encoded).flatMap(([form, encode]) => {
        const made = encode(key)
        const left = secrets.mask(`before ${made} after`)
        const rest = left.replaceAll(/\s/g, "")
        // The three letters at both ends of base64 are those of the bytes beside it, too; JSON has a frame.
        return leaked(rest, made.replaceAll(/\s/g, "")) > 16 ? [`${kind}, ${form}: ${left}`] : []
      })
    })
    assert.deepStrictEqual(missed, [])
  })

  it("finds every line of a value of several lines, in any order and in reverse", () => {
    const lines = Array.from({ length: 12 }, (_, at) =>
      Buffer.from(`line ${at} of a key that nobody may see, ${at * 7919}`).toString("base64")
    )
    const secrets = holding(["-----BEGIN KEY-----", ...lines, "-----END KEY-----"].join("\n"))
    const turned = lines.toReversed().join("\n")
    for (const text of [
      turned,
      Array.from(turned).reverse().join(""),
      lines.map((line) => Array.from(line).reverse().join("")).join("\n"),
      lines[5] ?? ""
    ]) {
      const left = secrets.mask(text)
      for (const line of lines) {
        assert.isBelow(leaked(left, line), 12)
        assert.isBelow(leaked(left, Array.from(line).reverse().join("")), 12)
      }
    }
  })

  it("hides what streams by, wherever it is cut", () => {
    for (const [kind, key] of plantedKeys.slice(0, 40)) {
      const secrets = holding(key)
      for (const form of [
        "plain",
        "base64, one byte before it",
        "hexadecimal",
        "in reverse",
        "base64, wrapped"
      ] as const) {
        const made = encoded[form]?.(key) ?? ""
        const text = `the text before ${made} and after`
        for (const size of [1, 3, 7, 16]) {
          for (const stream of [RedactionStream.make(secrets), RedactionStream.makeKeys(secrets)]) {
            let shown = ""
            for (let at = 0; at < text.length; at += size) shown += stream.push(text.slice(at, at + size))
            shown += stream.end()
            assert.isAtMost(
              leaked(shown.replaceAll(/\s/g, ""), made.replaceAll(/\s/g, "")),
              12,
              `${kind}, ${form}, ${size}: ${shown}`
            )
            assert.isTrue(shown.endsWith("and after"), shown)
          }
        }
      }
    }
  })

  it("hides what streams by when it is split at any place, beside keys that it does not hold", () => {
    for (const [at, [kind, key]] of plantedKeys.entries()) {
      const secrets = holding(key)
      const [, foreign = ""] = foreignKeys[at] ?? []
      for (const [form, encode] of Object.entries(encoded)) {
        const made = encode(key)
        const text = `see ${foreign} and ${made} and so on`
        const cuts =
          at % 10 === 0
            ? Array.from({ length: text.length - 1 }, (_, cut) => cut + 1)
            : [Math.floor(text.length / 3), Math.floor(text.length / 2)]
        for (const cut of cuts) {
          for (const stream of [RedactionStream.make(secrets), RedactionStream.makeKeys(secrets)]) {
            const shown = stream.push(text.slice(0, cut)) + stream.push(text.slice(cut)) + stream.end()
            assert.isAtMost(
              leaked(bare(shown), bare(form.includes("JSON") ? key : made)),
              12,
              `${kind}, ${form}, ${cut}: ${shown}`
            )
            assert.notInclude(shown, foreign, `${kind}, ${form}, ${cut}`)
            assert.isTrue(shown.endsWith("so on"), shown)
          }
        }
      }
    }
  })

  it("finds a value over several numbered lines, with or without the name of their file", () => {
    for (const [kind, key] of plantedKeys) {
      const secrets = holding(key)
      for (const form of [
        "base64, wrapped",
        "hexadecimal, upper case, wrapped",
        "wrapped at eight characters"
      ] as const) {
        const made = encoded[form]?.(key) ?? ""
        const lines = `first\n${made}\nlast`.split("\n")
        const numbered = [
          (line: string, at: number) => `${String(at + 9).padStart(6)}|${line}`,
          (line: string, at: number) => `${at + 9}\t${line}`,
          (line: string, at: number) => `src/notes.txt:${at + 9}:${line}`,
          (line: string, at: number) => `  ${at + 9}: ${line}`
        ]
        for (const number of numbered) {
          const left = secrets.mask(lines.map(number).join("\n"))
          assert.isAtMost(
            Math.max(...made.split("\n").map((line) => leaked(left, line))),
            8,
            `${kind}, ${form}: ${left}`
          )
          assert.include(left, "first")
          assert.include(left, "last")
        }
      }
    }
  })

  it("masks a password with the characters that forms change", () => {
    const password = 'pa"ss\\wö rd/+&=?7'
    const secrets = holding(password)
    for (const [form, encode] of Object.entries(encoded)) {
      assert.isBelow(leaked(secrets.mask(encode(password)), encode(password)), 12, form)
    }
    assert.strictEqual(secrets.mask(`my password is ${password}!`), "my password is ***!")
  })

  it("leaves words alone that are no secrets, and texts that hold none", () => {
    for (const word of [
      "ollama",
      "lm-studio",
      "no-key-required",
      "not-needed",
      "true",
      "dummy",
      "password",
      "xxxxxxxxxxxxxxxxxxxxxxxx",
      "${API_KEY}",
      "local"
    ]) {
      const text = `${word} and ${word}`
      assert.strictEqual(holding(word).mask(text), text)
    }
    const text = "nothing here"
    assert.strictEqual(holding("sk-live-1234567890abcdef").mask(text), text)
    assert.strictEqual(Secrets.none.mask(text), text)
  })

  it("takes no hash, UUID, picture or source code for a key", () => {
    const random = (length: number, seed: number) => {
      const bytes = Buffer.alloc(length)
      let state = seed
      for (let at = 0; at < length; at++) bytes[at] = (state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0) >>> 24
      return bytes
    }
    const ordinary = Array.from({ length: 500 }, (_, at) => {
      const hex = random(32, at + 1).toString("hex")
      return [
        hex,
        hex.slice(0, 40),
        hex.toUpperCase(),
        `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`,
        `sha512-${random(64, at).toString("base64")}`,
        `data:image/png;base64,${random(3_000, at).toString("base64")}`,
        `index ${hex.slice(0, 10)}..${hex.slice(10, 20)} 100644`
      ]
    }).flat()
    assert.deepStrictEqual(
      ordinary.filter((text) => Redaction.redactKeys(text) !== text),
      []
    )
    const folder = new URL("../../../src/", import.meta.url)
    const code = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.(?:ts|js)$/.test(file))
    assert.isAbove(code.length, 500)
    assert.deepStrictEqual(
      code.filter((file) => {
        const text = readFileSync(new URL(file, folder), "utf8")
        return Redaction.redactKeys(text) !== text
      }),
      []
    )
  })

  it("registers what is redacted in a value, and secrets in headers and logins", () => {
    const secrets = Secrets.make()
    Secrets.register(secrets, {
      apiKey: Redacted.make("first-Secret-Value-1"),
      headers: { authorization: "Bearer second-Secret-Value-2", accept: "application/json-with-a-long-name" },
      tokens: { access_token: "third-Secret-Value-3" },
      env: { HOME: Redacted.make("/home/somebody/with/a/long/path"), MODE: Redacted.make("production") }
    })
    const text =
      "first-Secret-Value-1 second-Secret-Value-2 third-Secret-Value-3 application/json-with-a-long-name /home/somebody/with/a/long/path production"
    assert.strictEqual(
      secrets.mask(text),
      "firs…-1 seco…-2 thir…-3 application/json-with-a-long-name /home/somebody/with/a/long/path production"
    )
  })

  it.effect("belongs to one runtime: another one, and code outside of both, knows nothing of it", () =>
    Effect.gen(function* () {
      const text = "the value is hold-On-To-It-42-please"
      const seen = yield* Secrets.provideRegistry(
        Effect.gen(function* () {
          yield* Secrets.registerSecrets({ key: Redacted.make("hold-On-To-It-42-please") })
          return Redaction.redactText(text)
        })
      )
      assert.strictEqual(seen, "the value is hold…se")
      assert.strictEqual(yield* Secrets.provideRegistry(Effect.sync(() => Redaction.redactText(text))), text)
      assert.strictEqual(Redaction.redactText(text), text)
    })
  )
})
