/**
 * Reads and writes the YAML of configuration files. Errors contain the exact position, the mistake and the remedy.
 *
 * **Details**
 *
 * Uses the library `yaml`, which is loaded on first use. Files are read by the rules of YAML 1.2 with merge keys, so
 * `yes` and `off` are strings. Strings are written so that YAML 1.1 readers read the same value: `"yes"`.
 *
 * **Gotchas**
 *
 * A custom tag (`!x`) is ignored. A file with several documents is an error.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Library from "yaml"
import { ConfigError } from "../domain/AgentError.ts"

/** The syntax tree of a YAML document: the library's nodes, each with its position in the text. */
type Document = Library.Document.Parsed<Library.ParsedNode, true>

/** A reader and writer of YAML. */
export interface Yaml {
  /** Parses YAML. The failure has the form `line 2, column 4: <mistake>: <remedy>`. */
  readonly parse: (text: string) => Result.Result<unknown, string>
  /** Parses the text of a file. The error contains the name of the file. */
  readonly read: (text: string, file: string) => Effect.Effect<unknown, ConfigError>
  /**
   * Returns the line of a place, counted from 1. If the text does not contain the place, returns the line of its
   * nearest parent.
   */
  readonly findLine: (text: string, path: ReadonlyArray<string | number>) => number
  /** Renders a value as YAML, without a line break at the end. */
  readonly render: (value: unknown) => string
  /** Parses YAML into its syntax tree, with the tokens of each node. */
  readonly document: (text: string) => Document
  readonly library: Pick<typeof Library, "isAlias" | "isMap" | "isScalar" | "isSeq">
}

const parseOptions = { logLevel: "error", merge: true, prettyErrors: false, version: "1.2" } as const

const writeOptions = { aliasDuplicateObjects: false, blockQuote: false, compat: "yaml-1.1", lineWidth: 0 } as const

const openers: Readonly<Record<string, string>> = {
  "[": "the list that opens here has no end, or an entry without a comma: add ] or ,",
  "{": 'the mapping that opens here has no end, or an entry that is no "key: value": add } or ,',
  '"': "the quote that opens here has no end: close it at the end of the value",
  "'": "the quote that opens here has no end: close it at the end of the value"
}

type ErrorPosition = "here" | "colon"

/**
 * Messages for the library's errors. Each entry has a pattern for the error's code and message, and a message with the
 * mistake and its remedy.
 */
const mistakes: ReadonlyArray<readonly [error: RegExp, mistake: string, place?: ErrorPosition]> = [
  [/^TAB_AS_INDENT/, "a tab in the indentation: use spaces"],
  [/^BAD_DQ_ESCAPE/, "an unknown escape: write a backslash as \\\\, or use single quotes"],
  [/^MULTIPLE_DOCS/, "a second document: keep one, without the --- before the other"],
  [/^BAD_ALIAS|^ALIAS_PROPS|^MULTIPLE_ANCHORS/, "an & or * that names nothing here: put the value into quotes"],
  [/^BAD_SCALAR_START/, "a value cannot begin with this character: put the value into quotes"],
  [/^BLOCK_AS_IMPLICIT_KEY Nested|^BLOCK_IN_FLOW/, "a colon in the value: put the value into quotes", "colon"],
  [/block-seq-ind/, "a list entry where none can stand: begin the list on the line below its key"],
  [/^BAD_INDENT|^BLOCK_AS_IMPLICIT_KEY/, "the indentation fits no line above: align the line with its neighbours"],
  [/lock scalar/, "text behind the | or >: begin the text on the next line"],
  [/followed by map values|^MULTILINE_IMPLICIT_KEY/, 'no "key: value": add the colon and a space, or remove the line'],
  [/^RESOURCE_EXHAUSTION|Excessive alias/, "too many aliases (*): write the values out"],
  [
    /at node end|^UNEXPECTED_TOKEN/,
    "text that belongs to nothing before it: put the whole value into quotes, or align the line with its neighbours"
  ]
]

/** Formats the line and column of an offset, counted from 1. */
const formatPosition = (text: string, offset: number): string => {
  const before = text.slice(0, offset)
  return `line ${before.split("\n").length}, column ${offset - before.lastIndexOf("\n")}`
}

/** A mistake and its offset in the text. */
type Mistake = readonly [offset: number, mistake: string]

/** Returns the offset of the innermost bracket or quote that is open at an offset; `undefined` if none is open. */
const findOpenerAt = ({ visit }: typeof Library, doc: Document, text: string, offset: number): number | undefined => {
  let found: number | undefined
  visit(doc, {
    Node: (_, { range }) => {
      if (range && range[0] < offset && range[2] >= offset && Object.hasOwn(openers, text[range[0]] ?? ""))
        found = range[0]
    }
  })
  return found
}

/** Returns the offset of a key that would become the prototype of a mapping; `undefined` if there is no such key. */
const findPrototypeKeyAt = ({ visit }: typeof Library, doc: Document): number | undefined => {
  let found: number | undefined
  visit(doc, {
    Scalar: (role, { range, value }) => {
      if (role !== "key" || value !== "__proto__") return undefined
      found = range?.[0] ?? 0
      return visit.BREAK
    }
  })
  return found
}

const findKeyAt = ({ visit }: typeof Library, doc: Document, offset: number): string => {
  let key = ""
  visit(doc, {
    Scalar: (role, { range, value }) => {
      if (role === "key" && range?.[0] === offset) key = String(value)
    }
  })
  return key
}

const describeSyntaxError = (
  library: typeof Library,
  doc: Document,
  text: string,
  { code, message, pos: [offset] }: Library.YAMLParseError
): Mistake => {
  if (code === "DUPLICATE_KEY")
    return [offset, `duplicate key ${JSON.stringify(findKeyAt(library, doc, offset))}: keep one of them`]
  const opener = /closing|end with a|between flow/.test(message) ? findOpenerAt(library, doc, text, offset) : undefined
  if (opener !== undefined) return [opener, openers[text[opener] ?? ""] ?? ""]
  const [, mistake, place] = mistakes.find(([error]) => error.test(`${code} ${message}`)) ?? []
  if (place === "colon") return [offset + Math.max(0, text.slice(offset).search(/:(?=\s|$)/)), mistake ?? ""]
  const blank = /^[ \t]*/.exec(text.slice(offset))?.[0].length ?? 0
  return [code === "TAB_AS_INDENT" ? offset : offset + blank, mistake ?? "no YAML: put the value into quotes"]
}

/** Describes a mistake that is found when aliases and merge keys are resolved. */
const describeReferenceError = (
  { visit, isScalar, isMap }: typeof Library,
  doc: Document,
  message: string
): Mistake => {
  let found: Mistake | undefined
  visit(doc, {
    Alias: (_, alias) => {
      if (alias.resolve(doc) !== undefined) return undefined
      found = [
        alias.range?.[0] ?? 0,
        `nothing is named ${alias.source} by an &: put the value into quotes if the * belongs to it`
      ]
      return visit.BREAK
    },
    Pair: (_, { key, value }) => {
      if (!isScalar(key) || key.source !== "<<" || isMap(value)) return
      found ??= [key.range?.[0] ?? 0, "<< takes a mapping, or a list of mappings: write *NAME behind it"]
    }
  })
  return found ?? [0, mistakes.find(([error]) => error.test(message))?.[1] ?? message]
}

const parse =
  (library: typeof Library): Yaml["parse"] =>
  (text) => {
    const doc = library.parseDocument(text, parseOptions)
    const failAt = ([offset, mistake]: Mistake) => Result.fail(`${formatPosition(text, offset)}: ${mistake}`)
    // An error about a key that spans several lines is usually a consequence of another mistake.
    const error = doc.errors.find(({ code }) => code !== "MULTILINE_IMPLICIT_KEY") ?? doc.errors[0]
    if (error !== undefined) return failAt(describeSyntaxError(library, doc, text, error))
    const prototypeKey =
      text.includes("__proto__") || text.includes("\\") ? findPrototypeKeyAt(library, doc) : undefined
    if (prototypeKey !== undefined) return failAt([prototypeKey, "__proto__ cannot be a key: use another name"])
    try {
      return Result.succeed(doc.toJS())
    } catch (cause) {
      return failAt(describeReferenceError(library, doc, String(cause)))
    }
  }

const make = (library: typeof Library): Yaml => {
  const { isMap, isNode, isScalar, parseDocument, stringify } = library

  return {
    parse: parse(library),
    read: (text, file) =>
      Effect.suspend(() =>
        Effect.mapError(
          Effect.fromResult(parse(library)(text)),
          (mistake) => new ConfigError({ path: file, message: `${file}: ${mistake}` })
        )
      ),
    findLine: (text, path) => {
      const doc = parseDocument(text, parseOptions)
      for (let length = path.length; length > 0; length--) {
        const name = path[length - 1]
        const parent = doc.getIn(path.slice(0, length - 1), true)
        const pair = isMap(parent) ? parent.items.find(({ key }) => isScalar(key) && key.value === name) : undefined
        const node = pair === undefined ? doc.getIn(path.slice(0, length), true) : pair.key
        if (isNode(node) && node.range) return text.slice(0, node.range[0]).split("\n").length
      }
      return 1
    },
    render: (value) => stringify(value, writeOptions).replace(/\n$/, ""),
    document: (text) => parseDocument(text, { ...parseOptions, keepSourceTokens: true }),
    library
  }
}

/** Loads the library and returns the reader and writer. */
export const load: Effect.Effect<Yaml> = Effect.map(
  Effect.promise(() => import("yaml")),
  make
)

/** Parses the text of a file; see {@link Yaml}. */
export const read = (text: string, file: string): Effect.Effect<unknown, ConfigError> =>
  Effect.flatMap(load, (yaml) => yaml.read(text, file))

/** Renders a value as `hermes config get` prints it. */
export const render = (value: unknown): Effect.Effect<string> => Effect.map(load, (yaml) => yaml.render(value))
