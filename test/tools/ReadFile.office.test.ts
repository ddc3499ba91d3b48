import { assert, layer } from "@effect/vitest"
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Zip from "effect/encoding/Zip"
import { nodeLayer, workspace } from "../support/fileTools.ts"

const zip = (parts: Readonly<Record<string, string>>) =>
  Stream.fromIterable(Object.entries(parts).map(([path, xml]) => Zip.file(path, xml))).pipe(
    Stream.pipeThroughChannel(Zip.encode()),
    Stream.runCollect,
    Effect.map(Bytes.concat)
  )

const textOf = (body: Record<string, unknown>): string => String(body["content"]).replaceAll(/^ *\d+\|/gm, "")

layer(nodeLayer)("read_file on office documents", (it) => {
  it.effect("a .docx is shown as its paragraphs", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put(
        "a.docx",
        yield* zip({
          "[Content_Types].xml": "<Types/>",
          "word/document.xml":
            "<w:document><w:body><w:p><w:r><w:t>Hello</w:t><w:tab/><w:t>you &amp; me</w:t></w:r></w:p>" +
            "<w:p><w:r><w:t>Bye</w:t></w:r></w:p></w:body></w:document>"
        })
      )
      assert.strictEqual(textOf((yield* w.call("read_file", { path: "a.docx" })).body), "Hello\tyou & me\nBye\n")
    })
  )

  it.effect("a .xlsx is shown as its rows, shared texts resolved and empty cells kept", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put(
        "a.xlsx",
        yield* zip({
          "xl/worksheets/sheet1.xml":
            '<worksheet><sheetData><row><c r="A1" t="s"><v>1</v></c><c r="C1"><v>42</v></c></row>' +
            '<row><c r="A2" t="inlineStr"><is><t>inline</t></is></c></row></sheetData></worksheet>',
          "xl/sharedStrings.xml": "<sst><si><t>zero</t></si><si><r><t>on</t></r><r><t>e</t></r></si></sst>"
        })
      )
      assert.strictEqual(
        textOf((yield* w.call("read_file", { path: "a.xlsx" })).body),
        "# Sheet 1\none\t\t42\ninline\n"
      )
    })
  )

  it.effect("a .pptx is shown slide by slide, in the order of their numbers", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      const slide = (text: string) => `<p:sld><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:sld>`
      yield* w.put(
        "a.pptx",
        yield* zip({ "ppt/slides/slide10.xml": slide("ten"), "ppt/slides/slide2.xml": slide("two") })
      )
      assert.strictEqual(
        textOf((yield* w.call("read_file", { path: "a.pptx" })).body),
        "# Slide 1\ntwo\n# Slide 2\nten\n"
      )
    })
  )

  it.effect("a damaged document is an error that says so", () =>
    Effect.gen(function* () {
      const w = yield* workspace()
      yield* w.put("a.docx", "no zip at all")
      const { isFailure, body } = yield* w.call("read_file", { path: "a.docx" })
      assert.isTrue(isFailure)
      assert.include(String(body["error"]), "damaged")
    })
  )
})
