// Lines with a mark of their own (`!`, `!!`, `#`), pictures that are pasted, and Esc Esc.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { session } from "../../support/interactiveSession.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)

describe("lines with a mark", () => {
  it.effect("! shares what it prints with the next message, !! does not, and # is remembered", () => {
    const notes: Array<string> = []
    const remember = (text: string) => Effect.sync(() => (notes.push(text), "MEMORY.md"))
    return session({ remember }, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("!echo out-$((40+2)); exit 3\r")
        yield* until("exit 3 · sent with your next message")
        yield* type("!!echo apart\r")
        yield* until("exit 0\n")
        yield* type("#use tabs here\r")
        yield* until("Saved in MEMORY.md.")
        yield* type("hello\r")
        yield* until("hello", 2)
        const asked = JSON.stringify(model.asked.at(-1)?.messages)
        assert.include(asked, "exit 3")
        assert.include(asked, "out-42")
        assert.notInclude(asked, "apart")
        assert.deepEqual(notes, ["use tabs here"])
        // It is taken with one message.
        yield* type("again\r")
        yield* until("You said: again")
        assert.notInclude(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "out-42")
        yield* type(" # a heading\r")
        yield* until("You said: # a heading")
      })
    )
  })

  it.effect("a picture that is dragged in is attached, in every form of its path; what is no image is not", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryDirectory, "two words")
      mkdirSync(folder)
      for (const name of ["a.png", "b.png", "c.png"]) writeFileSync(join(folder, name), png)
      writeFileSync(join(folder, "none.png"), "text")
      yield* session({ columns: 200 }, ({ model, type, until }) =>
        Effect.gen(function* () {
          const pasted = [
            `'${folder}/a.png'`,
            `${folder}/b.png`.replaceAll(" ", "\\ "),
            `file://${folder}/c.png`.replaceAll(" ", "%20"),
            `"${folder}/none.png"`,
            "/no/such.png"
          ]
          yield* type(`\u001b[200~${pasted.join(" ")}\u001b[201~ hello\r`)
          yield* until("none.png is not a PNG, JPEG, GIF or WebP image and is not attached.")
          yield* until("You said:")
          const parts = model.asked.at(-1)?.messages.at(-1)?.content
          assert.deepEqual(
            Array.isArray(parts) ? parts.flatMap((part) => (part.type === "file" ? [part.fileName] : [])) : [],
            ["a.png", "b.png", "c.png"]
          )
        })
      )
    }).pipe(Effect.scoped)
  )

  it.effect("a picture has a chip below the line while it is typed, and in the conversation", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryDirectory
      writeFileSync(join(folder, "red lamp.png"), png)
      yield* session({ status: { compactAt: undefined, home: undefined } }, ({ later, screen, type, until }) =>
        Effect.gen(function* () {
          yield* type(`look at '${folder}/red lamp.png' `)
          yield* later("▣ red lamp.png")
          assert.notInclude(screen(), "image/png")
          yield* type("\u0015look at '/no/such lamp.png'")
          yield* later("/no/such lamp.png")
          assert.notInclude(screen(), "▣")
          yield* type(`\u0015look at '${folder}/red lamp.png'\r`)
          yield* until("▣ red lamp.png · image/png · ")
        })
      )
    })
  )

  it.effect("Ctrl+V attaches the picture on the clipboard; without one it says so", () =>
    Effect.gen(function* () {
      const file = join(yield* temporaryDirectory, "picture-1.png")
      writeFileSync(file, Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a))
      const pictures: Array<string | undefined> = [undefined, file]
      const clipboard = { isInTmux: false, put: () => Effect.undefined, picture: Effect.sync(() => pictures.shift()) }
      yield* session({ clipboard, columns: 200 }, ({ model, type, until }) =>
        Effect.gen(function* () {
          yield* type("\u0016")
          yield* until("There is no picture on the clipboard.")
          yield* type("\u0016what is this?\r")
          yield* until("You said:")
          const parts = model.asked.at(-1)?.messages.at(-1)?.content
          assert.deepEqual(
            Array.isArray(parts) ? parts.flatMap((part) => (part.type === "file" ? [part.fileName] : [])) : [],
            ["picture-1.png"]
          )
        })
      )
    }).pipe(Effect.scoped)
  )

  it.effect("Esc Esc goes back to before a message, in a copy of the session, with the message to change", () =>
    session({}, ({ later, model, store, type, until }) =>
      Effect.gen(function* () {
        yield* type("!echo out\r")
        yield* until("sent with your next")
        for (const text of ["first", "second", "third"]) {
          yield* type(`${text}\r`)
          yield* until(`You said: ${text}`)
        }
        yield* type("\u001b\u001b")
        assert.include(yield* later("❯ third"), "\n  first ")
        yield* type("seco\r")
        yield* until("The conversation continues from before that turn")
        yield* until("› second", 2)
        yield* type(" thoughts\r")
        yield* until("You said: second thoughts")
        const said = JSON.stringify(model.asked.at(-1)?.messages)
        assert.include(said, "first")
        assert.notInclude(said, "third")
        const [fork, before] = yield* store.list({ limit: 2 })
        assert.deepEqual([fork?.messageCount, before?.messageCount], [4, 6])
      })
    )
  )
})
