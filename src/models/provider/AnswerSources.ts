/**
 * Reads the sources that an answer cites: pages and documents, in the forms of the four protocols.
 *
 * **Details**
 *
 * Chat completions have `annotations` in the message (some servers `citations`, a list of addresses, in the body),
 * responses have `annotations` in the text, messages have `citations` in a text block, and Converse has
 * `citationsContent`. A source that is cited several times is listed once.
 */
import * as Json from "../../base/domain/Json.ts"
import type { AnswerSource } from "../../base/domain/ModelCall.ts"

/** The sources of one answer, in the order of their first citation. */
export interface SourceList {
  /** Adds the sources of citations in any of the known forms. */
  readonly add: (citations: unknown) => void
  readonly list: () => ReadonlyArray<AnswerSource>
}

const readText = (value: unknown): string | undefined => Json.readWord(value) || undefined

const makeUrlSource = (url: string, title: unknown): AnswerSource => ({ type: "url", url, title: readText(title) })

/** Reads the document of a citation: its title, its id, or its place among the documents of the request. */
const readDocument = (citation: Json.Fields): AnswerSource | undefined => {
  const title = readText(citation["document_title"]) ?? readText(citation["filename"]) ?? readText(citation["title"])
  const id = readText(citation["file_id"]) ?? readText(citation["source"])
  const index = citation["document_index"] ?? citation["documentIndex"]
  if (title === undefined && id === undefined && typeof index !== "number") return undefined
  return { type: "document", title, id, index: typeof index === "number" ? index : undefined }
}

/** Reads the location of a citation of Converse, whose member names its kind. */
const readLocation = (citation: Json.Fields): Json.Fields => {
  const [place] = Object.values(Json.readFields(citation["location"])).filter(Json.isFields)
  return { title: citation["title"], source: citation["source"], ...place }
}

const readSource = (value: unknown): AnswerSource | undefined => {
  if (typeof value === "string") return URL.canParse(value) ? makeUrlSource(value, undefined) : undefined
  const citation = Json.readFields(value)
  const nested = citation["url_citation"]
  const fields = Json.isFields(nested)
    ? nested
    : Json.isFields(citation["location"])
      ? readLocation(citation)
      : citation
  const url = readText(fields["url"])
  return url === undefined ? readDocument(fields) : makeUrlSource(url, fields["title"])
}

/** Creates an empty list. */
export const makeList = (): SourceList => {
  const found = new Map<string, AnswerSource>()
  return {
    add: (citations) => {
      for (const one of Json.readItems(citations)) {
        const source = readSource(one)
        const key = JSON.stringify(source)
        if (source !== undefined && !found.has(key)) found.set(key, source)
      }
    },
    list: () => Array.from(found.values())
  }
}

/** Returns the member of a response for its sources; empty without sources. */
export const toMember = (sources: ReadonlyArray<AnswerSource>): { readonly sources?: ReadonlyArray<AnswerSource> } =>
  sources.length === 0 ? {} : { sources }

/** Returns the member of a response for the sources of these lists of citations. */
export const readMember = (
  ...citations: ReadonlyArray<unknown>
): { readonly sources?: ReadonlyArray<AnswerSource> } => {
  if (citations.every((one) => !Array.isArray(one) || one.length === 0)) return {}
  const sources = makeList()
  for (const one of citations) sources.add(one)
  return toMember(sources.list())
}

/** Returns the citations in the text of output items of the Responses API. */
export const listAnnotations = (output: unknown): ReadonlyArray<unknown> =>
  Json.readItems(output).flatMap((item) =>
    Json.readItems(Json.readFields(item)["content"]).flatMap((part) =>
      Json.readItems(Json.readFields(part)["annotations"])
    )
  )
