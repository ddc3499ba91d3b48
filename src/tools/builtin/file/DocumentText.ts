/**
 * Extracts the text of documents. For the XML office formats, the text consists of the paragraphs of `.docx`, the rows
 * of `.xlsx` with tabs between the cells, and the slides of `.pptx`. Layout, formulas, comments and pictures are
 * omitted. The parsers are loaded when a document is read. For Jupyter notebooks, the text consists of the cells in
 * order, with their text outputs.
 *
 * Source: `hermes-product.md` §2.3 ("office documents are extracted", "notebooks are extracted").
 */
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Xml from "effect/encoding/Xml"
import * as Problem from "./Problem.ts"

/** Maximum size of an unpacked document in bytes; a larger document is treated as an attack. */
const maxUnpacked = 100 * 1024 * 1024

const formats = {
  ".docx": /^word\/document\.xml$/,
  ".pptx": /^ppt\/slides\/slide\d+\.xml$/,
  ".xlsx": /^xl\/(sharedStrings|worksheets\/sheet\d+)\.xml$/
}
type Format = keyof typeof formats

const findFormat = (name: string): Format | undefined =>
  (Object.keys(formats) as ReadonlyArray<Format>) // the keys of a constant record
    .find((format) => name.endsWith(format))

/** Returns `true` if a lower-case file name belongs to a document whose text can be extracted. */
export const isDocument = (name: string): boolean => findFormat(name) !== undefined

const sharedStrings = "xl/sharedStrings.xml"

/** Handles the events of one part. Collects lines of text, and for a sheet the indexes of shared texts. */
type Visit = (event: Xml.Event) => void

/** Collects the text between paragraph ends: `w:t` of Word and `a:t` of PowerPoint. */
const makeParagraphVisitor = (lines: Array<string>): Visit => {
  let line = ""
  let inText = false
  return (event) => {
    if (event._tag === "StartElement") {
      if (event.name === "w:t" || event.name === "a:t") inText = true
      else if (event.name === "w:tab") line += "\t"
      else if (event.name === "w:br" || event.name === "a:br") line += "\n"
    } else if (event._tag === "EndElement") {
      if (event.name === "w:t" || event.name === "a:t") inText = false
      else if (event.name === "w:p" || event.name === "a:p") {
        lines.push(line)
        line = ""
      }
    } else if (event._tag === "Text" && inText) line += event.text
  }
}

/** Collects the shared texts of a workbook by index, without phonetic hints. */
const makeSharedTextVisitor = (texts: Array<string>): Visit => {
  let text = ""
  let inText = false
  let phonetic = false
  return (event) => {
    if (event._tag === "StartElement") {
      if (event.name === "t") inText = !phonetic
      else if (event.name === "rPh") phonetic = true
    } else if (event._tag === "EndElement") {
      if (event.name === "t") inText = false
      else if (event.name === "rPh") phonetic = false
      else if (event.name === "si") {
        texts.push(text)
        text = ""
      }
    } else if (event._tag === "Text" && inText) text += event.text
  }
}

/** Returns the zero-based column of a cell reference such as `AB12`. */
const parseColumn = (reference: string): number => {
  let column = 0
  for (const letter of reference.match(/^[A-Z]{1,3}/)?.[0] ?? "A") column = column * 26 + letter.charCodeAt(0) - 64
  return column - 1
}

/** Collects the rows of a sheet, one line per row. */
const makeRowVisitor = (lines: Array<string>, texts: ReadonlyArray<string>): Visit => {
  let cells: Array<string> = []
  let column = 0
  let type = ""
  let value = ""
  let inValue = false
  return (event) => {
    if (event._tag === "StartElement") {
      if (event.name === "c") {
        const reference = event.attributes["r"]
        column = reference === undefined ? cells.length : parseColumn(reference)
        type = event.attributes["t"] ?? ""
        value = ""
      } else if (event.name === "v" || event.name === "t") inValue = true
    } else if (event._tag === "EndElement") {
      if (event.name === "v" || event.name === "t") inValue = false
      else if (event.name === "c") {
        while (cells.length < column) cells.push("")
        cells[column] = type === "s" ? (texts[Number(value)] ?? "") : value
      } else if (event.name === "row") {
        lines.push(cells.join("\t"))
        cells = []
      }
    } else if (event._tag === "Text" && inValue) value += event.text
  }
}

/** Unpacks the requested parts of a document, by name. */
const unpackParts = Effect.fnUntraced(function* (bytes: Uint8Array, wanted: RegExp) {
  const Zip = yield* Effect.promise(() => import("effect/encoding/Zip"))
  const parts = new Map<string, Uint8Array>()
  let unpacked = 0
  yield* Stream.make(bytes).pipe(
    Stream.pipeThroughChannel(Zip.decode()),
    // Entries are read one at a time: a body can only be read before the next entry is pulled.
    Stream.runForEach(({ header, body }) => {
      const pieces: Array<Uint8Array> = []
      return Stream.runForEach(body, (piece) => {
        unpacked += piece.length
        if (unpacked > maxUnpacked) return Problem.fail("the document is too large when it is unpacked")
        if (wanted.test(header.path)) pieces.push(piece)
        return Effect.void
      }).pipe(
        Effect.andThen(
          Effect.sync(() => {
            if (pieces.length > 0) parts.set(header.path, Bytes.concat(pieces))
          })
        )
      )
    })
  )
  return parts
})

/** Sorts names by the numbers in them: `sheet2` before `sheet10`. */
const sortNaturally = (names: Iterable<string>): ReadonlyArray<string> =>
  Array.from(names).sort(new Intl.Collator("en", { numeric: true }).compare)

const readPart = (part: Uint8Array, visit: Visit) =>
  Effect.flatMap(
    Effect.promise(() => import("effect/encoding/Xml")),
    (Xml) =>
      Stream.make(part).pipe(
        Stream.pipeThroughChannel(Xml.decode()),
        Stream.runForEach((event) => Effect.sync(() => visit(event)))
      )
  )

/** Returns the text of a document whose file name satisfies {@link isDocument}. */
export const extract: (name: string, bytes: Uint8Array) => Effect.Effect<string, Problem.Problem> = Effect.fnUntraced(
  function* (name, bytes) {
    const format = findFormat(name) ?? ".docx"
    const parts = yield* unpackParts(bytes, formats[format])
    const texts: Array<string> = []
    const strings = parts.get(sharedStrings)
    if (strings !== undefined) yield* readPart(strings, makeSharedTextVisitor(texts))
    const lines: Array<string> = []
    for (const [index, part] of sortNaturally(parts.keys())
      .filter((part) => part !== sharedStrings)
      .entries()) {
      if (format !== ".docx") lines.push(`# ${format === ".xlsx" ? "Sheet" : "Slide"} ${index + 1}`)
      const bytes = parts.get(part)
      if (bytes !== undefined)
        yield* readPart(bytes, format === ".xlsx" ? makeRowVisitor(lines, texts) : makeParagraphVisitor(lines))
    }
    return lines.length === 0 ? "" : `${lines.join("\n")}\n`
  },
  Effect.catchTags({
    ZipError: ({ message }) => Problem.fail(`the document is damaged: ${message}`),
    XmlError: ({ message }) => Problem.fail(`the document is damaged: ${message}`)
  })
)

/** Text as stored in notebooks: a single string or a list of lines. */
const NotebookSource = Schema.Union([Schema.String, Schema.Array(Schema.String)])

const NotebookOutput = Schema.Struct({
  output_type: Schema.optionalKey(Schema.String),
  text: Schema.optionalKey(NotebookSource),
  data: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  ename: Schema.optionalKey(Schema.String),
  evalue: Schema.optionalKey(Schema.String)
})

const NotebookFile = Schema.fromJsonString(
  Schema.Struct({
    cells: Schema.Array(
      Schema.Struct({
        cell_type: Schema.String,
        source: NotebookSource,
        outputs: Schema.optionalKey(Schema.Array(NotebookOutput))
      })
    )
  })
)

const decodeNotebook = Schema.decodeUnknownOption(NotebookFile)
const isNotebookSource = Schema.is(NotebookSource)

const joinSource = (source: typeof NotebookSource.Type): string =>
  typeof source === "string" ? source : source.join("")

const renderOutput = ({ text, data = {}, ename, evalue }: typeof NotebookOutput.Type): string => {
  if (text !== undefined) return joinSource(text)
  if (ename !== undefined) return `${ename}: ${evalue ?? ""}`
  const shown = data["text/plain"]
  if (isNotebookSource(shown)) return joinSource(shown)
  return `[${Object.keys(data).join(", ") || "no text"}]`
}

/** Returns the cells of a notebook as text; `Option.none` if the text is not a notebook. */
export const renderNotebook = (json: string): Option.Option<string> =>
  Option.map(decodeNotebook(json), ({ cells }) =>
    cells
      .map(({ cell_type, source, outputs = [] }, index) => {
        const head = `# [cell ${index + 1}: ${cell_type}]\n${joinSource(source).trimEnd()}\n`
        return outputs.length === 0
          ? head
          : `${head}# [output of cell ${index + 1}]\n` +
              `${outputs.map((output) => renderOutput(output).trimEnd()).join("\n")}\n`
      })
      .join("\n")
  )
