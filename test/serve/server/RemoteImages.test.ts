// Images in what a model says, as editors get it: none that is loaded from elsewhere, however the text is cut into
// pieces.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as RemoteImages from "../../../src/serve/server/acp/RemoteImages.ts"
import * as acpEditor from "../../support/acpEditor.ts"
import { world } from "../../support/servedEditor.ts"

const changed: ReadonlyArray<readonly [given: string, shown: string]> = [
  ["![plan](https://e.example/a.png?d=secret)", "[plan](https://e.example/a.png?d=secret)"],
  ["see ![](http://e.example/x) and ![b](//e.example/y)", "see [](http://e.example/x) and [b](//e.example/y)"],
  ['![a]( <https://e.example/x> "t")', '[a]( <https://e.example/x> "t")'],
  ["![a](< //e.example/x>)", "[a](< //e.example/x>)"],
  ["![a](\nhttps://e.example/x)", "[a](\nhttps://e.example/x)"],
  ["![a](HTTPS://e.example/x)", "[a](HTTPS://e.example/x)"],
  ["![a](https\\://e.example/x)", "[a](https\\://e.example/x)"],
  ["![a](&#104;ttps://e.example/x)", "[a](&#104;ttps://e.example/x)"],
  ["![a](\\\\e.example\\x)", "[a](\\\\e.example\\x)"],
  ["![a [b] c](https://e.example/x)", "[a [b] c](https://e.example/x)"],
  ["word![a](https://e.example/x)", "word[a](https://e.example/x)"],
  ["[1]: https://e.example/x\n\n![a][1]", "[1]: https://e.example/x\n\n[a][1]"],
  ["![a][1]\n\n[1]: https://e.example/x", "![a][1]\n\n\\[1]: https://e.example/x"],
  ["![One]\n\n> [one]: <https://e.example/x>", "![One]\n\n> \\[one]: <https://e.example/x>"],
  ["![a][]\n\n[A]:\nhttps://e.example/x", "![a][]\n\n\\[A]:\nhttps://e.example/x"],
  [`![${"a".repeat(6_000)}](https://e.example/x)`, `[${"a".repeat(6_000)}](https://e.example/x)`]
]

const kept: ReadonlyArray<string> = [
  "[a link](https://e.example/x)",
  "![local](docs/a.png) ![here](/tmp/a.png) ![data](data:image/png;base64,AAAA)",
  '#![feature(test)]\nlet v = vec![1, 2][0]; println!["x"]',
  "[1]: https://e.example/x\n\n[a][1]",
  "Done! [x] is next!",
  "not over ![",
  "!",
  ""
]

const inPieces = (text: string, sizes: ReadonlyArray<number>): string => {
  const filter = RemoteImages.make()
  let out = ""
  let at = 0
  for (let index = 0; at < text.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    out += filter.push(text.slice(at, at + size))
    at += size
  }
  return out + filter.end()
}

describe("images of an answer", () => {
  it("that lead elsewhere become links", () => {
    for (const [given, shown] of changed) assert.strictEqual(RemoteImages.replaceRemoteImages(given), shown)
  })

  it("of this machine stay, and so does everything that is no image", () => {
    for (const text of kept.filter((text) => text !== "not over !["))
      assert.strictEqual(RemoteImages.replaceRemoteImages(text), text)
  })

  it("are found however the text is cut", () => {
    const texts = [...changed.map(([given]) => given), ...kept]
    for (const [index, text] of texts.entries()) {
      // With another text behind it, so that what is held meets what comes.
      const whole = `${text}\n\n${texts[(index * 7 + 3) % texts.length] ?? ""}`
      for (const sizes of [[1], [2], [3], [5], [1, 4, 2], [7, 1]])
        assert.strictEqual(inPieces(whole, sizes), inPieces(whole, [whole.length + 1]))
    }
  })

  it("are held over events that are no text", () => {
    const filter = RemoteImages.makeEventFilter()
    const delta = (text: string): RunEvent => ({ _tag: "TextDelta", text })
    const events = [delta("look: ![a](htt"), delta("ps://e.example/x) "), delta("![b](ht")].flatMap((event) =>
      filter.of([event])
    )
    const text = [...events, ...filter.end()].map((event) => (event._tag === "TextDelta" ? event.text : "")).join("")
    assert.strictEqual(text, "look: [a](https://e.example/x) [b](ht")
  })

  it("are looked for in linear time", () => {
    const text = "![".repeat(20_000)
    assert.isAtLeast(RemoteImages.replaceRemoteImages(text).length, 20_000)
  })
})

describe("an editor", () => {
  it.live("gets an answer without images of other hosts, live and when its session is loaded", () =>
    Effect.gen(function* () {
      const text = ["see ![the pl", "an](htt", "ps://e.example/?d=secret) and ![here](a.png)", "!"]
      const { ask, cwd, sessionId, textOf, updates } = yield* world({ work: [{ text }] }, {})
      yield* Effect.promise(async () => {
        const shown = "see [the plan](https://e.example/?d=secret) and ![here](a.png)!"
        await ask("session/prompt", { sessionId, prompt: acpEditor.say("work") })
        assert.strictEqual(textOf(sessionId), shown)
        updates.length = 0
        await ask("session/load", { sessionId, cwd, mcpServers: [] })
        assert.strictEqual(textOf(sessionId), shown)
      })
    })
  )
})
