import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as OutputText from "../../src/tools/builtin/terminal/OutputText.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as BackgroundProcess from "../../src/tools/builtin/terminal/BackgroundProcess.ts"

const esc = "\u001b"
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

describe("OutputBuffer", () => {
  it("keeps the first and the last bytes, however the output is cut into chunks", () => {
    const all = Uint8Array.from({ length: 997 }, (_, index) => index % 251)
    for (const size of [1, 2, 3, 7, 10, 11, 30, 64, 997]) {
      for (const [head, tail] of [
        [0, 10],
        [5, 10],
        [64, 3],
        [500, 600],
        [2000, 10]
      ] as const) {
        const buffer = OutputText.make({ head, tail })
        const reused = new Uint8Array(size)
        for (let at = 0; at < all.length; at += size) {
          const part = all.subarray(at, at + size)
          reused.set(part)
          buffer.push(reused.subarray(0, part.length))
          const seen = Math.min(at + size, all.length)
          const kept = buffer.kept()
          const headEnd = Math.min(head, seen)
          const tailStart = Math.max(headEnd, seen - tail)
          assert.deepStrictEqual(kept.head, all.slice(0, headEnd))
          assert.deepStrictEqual(kept.tail, all.slice(tailStart, seen))
          assert.strictEqual(kept.omitted, tailStart - headEnd)
          assert.strictEqual(buffer.total(), seen)
        }
      }
    }
  })
})

describe("OutputText", () => {
  const show = (text: string | Uint8Array, limit: number): string => {
    const buffer = OutputText.makeBuffer(limit)
    buffer.push(typeof text === "string" ? utf8(text) : text)
    return OutputText.renderBounded(buffer.kept(), limit, true)
  }

  it("shows all of an output within the limit", () => {
    assert.strictEqual(show("a".repeat(50_000), 50_000), "a".repeat(50_000))
    assert.strictEqual(show("€".repeat(50_000), 50_000), "€".repeat(50_000))
    assert.strictEqual(show("", 50_000), "")
  })

  for (const [name, char, total] of [
    ["ASCII", "a", 1],
    ["three byte", "€", 3],
    ["surrogate pair", "😀", 4]
  ] as const) {
    it(`cuts ${name} text to its first 40 % and last 60 %, with a notice of what is gone`, () => {
      for (const count of [50_001, 60_000, 400_000]) {
        const units = char.length * count
        const text = show(char.repeat(count), 50_000)
        const [head = "", rest = ""] = text.split("\n\n[... ")
        const [notice = "", tail = ""] = rest.split(" ...]\n\n")
        assert.strictEqual(head, char.repeat(20_000 / char.length), `${units}`)
        assert.strictEqual(tail, char.repeat(30_000 / char.length))
        assert.include(notice, `${total * (count - 50_000 / char.length)} of ${total * count} bytes`)
      }
    })
  }

  const held = "Kq7vWn2pXr9-nobody-knows-tB4mZc6y"
  const foreign = "glpat-aB3dE5gH7jK9mN1pQ3sT"
  const holding = Effect.provideService(
    Secrets.Secrets,
    (() => {
      const registry = Secrets.make()
      registry.add(held)
      return registry
    })()
  )

  it.effect("shows no part of a secret that has come in part, at any place, and hides it when it is there", () =>
    holding(
      Effect.sync(() => {
        for (const secret of [held, foreign, Buffer.from(held).toString("base64")]) {
          for (let cut = 16; cut < secret.length; cut++) {
            const buffer = OutputText.makeBuffer(10_000)
            buffer.push(utf8(`ready\nvalue ${secret.slice(0, cut)}`))
            const first = OutputText.renderEnd(buffer.kept(), 1_000, { redact: true, goesOn: true })
            buffer.push(utf8(`${secret.slice(cut)} end`))
            const second = OutputText.renderEnd(buffer.kept(), 1_000, { redact: true, goesOn: true })
            assert.strictEqual(first, "ready\nvalue ")
            assert.notInclude(second, secret.slice(4, 12))
            assert.isTrue(second.endsWith(" end"), second)
          }
        }
      })
    )
  )

  it.effect("shows no part of a secret that a cut or a gap goes through, wherever it stands", () =>
    holding(
      Effect.sync(() => {
        for (const secret of [held, foreign]) {
          for (const filling of [40, 4_000]) {
            for (let shift = 0; shift < 120; shift++) {
              const buffer = OutputText.makeBuffer(200)
              buffer.push(
                utf8(
                  "x".repeat(shift) +
                    ` ${secret} `.repeat(3) +
                    "a word ".repeat(filling) +
                    ` ${secret} `.repeat(3) +
                    "y".repeat(shift)
                )
              )
              for (const text of [
                OutputText.renderBounded(buffer.kept(), 200, true),
                OutputText.renderEnd(buffer.kept(), 100, { redact: true, goesOn: false })
              ]) {
                for (let at = 0; at + 8 <= secret.length; at++)
                  assert.notInclude(text, secret.slice(at, at + 8), `${filling}, ${shift}`)
              }
            }
          }
        }
      })
    )
  )

  it("leaves a prompt that waits for an answer", () => {
    const buffer = OutputText.makeBuffer(1_000)
    buffer.push(utf8("Overwrite? [y/n]"))
    assert.strictEqual(OutputText.renderEnd(buffer.kept(), 100, { redact: true, goesOn: true }), "Overwrite? [y/n]")
  })

  it("never splits a surrogate pair", () => {
    assert.isTrue(show(`a${"😀".repeat(40_000)}`, 50_000).isWellFormed())
    const buffer = OutputText.makeBuffer(100)
    buffer.push(utf8(`${"😀".repeat(500)}a`))
    assert.isTrue(OutputText.renderEnd(buffer.kept(), 99, { redact: true, goesOn: false }).isWellFormed())
  })

  it("replaces what is not UTF-8", () => {
    assert.strictEqual(show(Uint8Array.of(0x61, 0xff, 0xfe, 0x62, 0xe2, 0x82), 100), "a\ufffd\ufffdb\ufffd")
  })

  it("removes colours, cursor movements, titles, hyperlinks and character sets, and nothing else", () => {
    const text =
      `${esc}[1;31mred${esc}[0m ${esc}[2K${esc}[10;20H${esc}]0;title\u0007x${esc}]8;;http://a${esc}\\link` +
      `${esc}]8;;${esc}\\ ${esc}(B${esc}=${esc}[?25l[1m] é 😀\ttab`
    assert.strictEqual(OutputText.stripAnsi(text), "red xlink [1m] é 😀\ttab")
  })

  it("shows the end of an output", () => {
    const buffer = OutputText.makeBuffer(1000)
    for (let n = 0; n < 100_000; n++) buffer.push(utf8(`${n}\n`))
    assert.strictEqual(OutputText.renderEnd(buffer.kept(), 12, { redact: true, goesOn: false }), "99998\n99999\n")
  })
})

describe("WatchPatterns", () => {
  it("reports one match per 15 seconds, and counts those in between", () => {
    const [a, first] = BackgroundProcess.judgeMatch(BackgroundProcess.unwatched, 1000)
    assert.deepStrictEqual(first, { _tag: "Notify", suppressed: 0 })
    const [b, second] = BackgroundProcess.judgeMatch(a, 15_999)
    const [c, third] = BackgroundProcess.judgeMatch(b, 15_999)
    assert.deepStrictEqual([second._tag, third._tag], ["Nothing", "Nothing"])
    assert.deepStrictEqual(BackgroundProcess.judgeMatch(c, 16_000)[1], { _tag: "Notify", suppressed: 2 })
  })

  const replay = (times: ReadonlyArray<number>): ReadonlyArray<string> => {
    let state = BackgroundProcess.unwatched
    return times.map((time) => {
      const [next, decision] = BackgroundProcess.judgeMatch(state, time * 1000)
      state = next
      return decision._tag
    })
  }

  it("demotes a process that was noisy in three windows in a row", () => {
    assert.deepStrictEqual(replay([0, 1, 2, 15, 16, 30, 31, 32, 100]), [
      "Notify",
      "Nothing",
      "Nothing",
      "Notify",
      "Nothing",
      "Notify",
      "Demote",
      "Nothing",
      "Nothing"
    ])
  })

  it("forgives after a quiet window", () => {
    assert.deepStrictEqual(replay([0, 1, 15, 16, 30, 45, 46, 60, 61, 75]), [
      "Notify",
      "Nothing",
      "Notify",
      "Nothing",
      "Notify",
      "Notify",
      "Nothing",
      "Notify",
      "Nothing",
      "Notify"
    ])
  })

  it("finds a pattern in any line, over chunk borders, in an unfinished line once", () => {
    const match = BackgroundProcess.makeMatcher(["ready", "FAIL"])
    assert.isUndefined(match(utf8("start\nrea")))
    assert.deepStrictEqual(match(utf8("dy to go")), { pattern: "ready", lines: ["ready to go"] })
    assert.isUndefined(match(utf8(" now\nother\n")))
    assert.deepStrictEqual(match(utf8(`1 ${esc}[31mFA${esc}[1mIL${esc}[0m\nready\n`)), {
      pattern: "FAIL",
      lines: ["1 FAIL", "ready"]
    })
    assert.isUndefined(match(utf8("Ready\n")))
  })
})
