/**
 * Reads prompts and conversations as plain values: texts, and parts as the AI SDK writes them.
 *
 * **Details**
 *
 * An image or a file is an address (`https:`), a data URL, base64 text or bytes. The type of image bytes is read from
 * their first bytes. Parts and messages of Effect's `Prompt` are accepted beside them. A value of another form is an
 * `InvalidInput` that names its place, such as `history[2].content[0]`.
 */
import * as Prompt from "effect/ai/Prompt"
import { findImageType } from "../../base/domain/ImageType.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"

/** Data of a file: an address, a data URL, base64 text, or bytes. */
export type PlainData = string | URL | Uint8Array | ArrayBuffer

/** A part of a message of the user. */
export type PlainPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly image: PlainData; readonly mediaType?: string | undefined }
  | {
      readonly type: "file"
      readonly data: PlainData
      readonly mediaType?: string | undefined
      readonly filename?: string | undefined
    }

/** A message of an earlier conversation. */
export type PlainMessage =
  | { readonly role: "user"; readonly content: string | ReadonlyArray<PlainPart | Prompt.UserMessagePart> }
  | {
      readonly role: "assistant"
      readonly content:
        | string
        | ReadonlyArray<
            | { readonly type: "text"; readonly text: string }
            | {
                readonly type: "tool-call"
                readonly toolCallId: string
                readonly toolName: string
                readonly input: unknown
              }
          >
    }
  | {
      readonly role: "tool"
      readonly content: ReadonlyArray<{
        readonly type: "tool-result"
        readonly toolCallId: string
        readonly toolName?: string | undefined
        readonly output: unknown
      }>
    }

/** A prompt: a text, or parts. */
export type PlainPrompt = string | ReadonlyArray<PlainPart | Prompt.UserMessagePart>

const makeInputError = (at: string, problem: string): HermesError =>
  new HermesError("InvalidInput", `${at}: ${problem}`)

const requireText = (value: unknown, at: string): string => {
  if (typeof value !== "string") throw makeInputError(at, "expected a text")
  return value
}

/** Data as the runtime sends it, with its type if the data names it. */
interface FileContent {
  readonly data: string | Uint8Array | URL
  readonly mediaType?: string | undefined
}

/** Characters of base64 text that suffice to read a signature. */
const signatureLength = 24

const readAddress = (text: string, at: string): URL => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== "https:" && url?.protocol !== "http:")
    throw makeInputError(at, "expected a https: address, a data: URL, base64 text or bytes")
  return url
}

/** Reads a data URL; returns `undefined` for other texts. */
const readDataUrl = (text: string, at: string): FileContent | undefined => {
  if (!/^data:/iu.test(text)) return undefined
  const comma = text.indexOf(",")
  const [mediaType = "", ...attributes] = text.slice("data:".length, Math.max(comma, 0)).split(";")
  if (comma === -1 || attributes.at(-1)?.toLowerCase() !== "base64")
    throw makeInputError(at, "expected a data: URL in base64, such as data:image/png;base64,…")
  return { data: text.slice(comma + 1), mediaType: mediaType || undefined }
}

const readText = (text: string, at: string): FileContent => {
  const content = readDataUrl(text, at)
  if (content !== undefined) return content
  if (/^[a-z][a-z\d+.-]*:/iu.test(text)) return { data: readAddress(text, at) }
  if (text === "" || !/^[A-Za-z\d+/_-]+=*$/u.test(text.slice(0, 1_000)))
    throw makeInputError(at, "expected a https: address, a data: URL, base64 text or bytes")
  return { data: text, mediaType: findImageType(Buffer.from(text.slice(0, signatureLength), "base64")) }
}

const readData = (value: unknown, at: string): FileContent => {
  if (typeof value === "string") return readText(value, at)
  if (value instanceof URL) return readText(value.href, at)
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value
  if (!(bytes instanceof Uint8Array))
    throw makeInputError(at, "expected a https: address, a data: URL, base64 text or bytes")
  return { data: bytes, mediaType: findImageType(bytes) }
}

const toImagePart = ({ image, mediaType }: Json.Fields, at: string): Prompt.UserMessagePart => {
  const content = readData(image, `${at}.image`)
  const type = typeof mediaType === "string" ? mediaType : (content.mediaType ?? "image/*")
  return Prompt.filePart({ mediaType: type, data: content.data })
}

const toFilePart = (part: Json.Fields, at: string): Prompt.UserMessagePart => {
  const content = readData(part["data"] ?? part["url"], `${at}.data`)
  const { mediaType = content.mediaType } = part
  if (typeof mediaType !== "string" || !mediaType.includes("/"))
    throw makeInputError(`${at}.mediaType`, "expected the type of the file, such as application/pdf")
  const name = part["filename"] ?? part["fileName"]
  return Prompt.filePart({
    mediaType,
    data: content.data,
    ...(name === undefined ? {} : { fileName: requireText(name, `${at}.filename`) })
  })
}

const userPartTypes = ["text", "image", "file"]

const describeUnknown = (value: unknown, known: ReadonlyArray<string>): string => {
  const nearest = typeof value === "string" ? findNearest(value, known) : undefined
  const expected = nearest === undefined ? `expected ${known.join(", ")}` : `did you mean ${nearest}?`
  return `there is no ${value === undefined ? "type" : Options.quoteValue(value)} here: ${expected}`
}

const toUserPart = (part: unknown, at: string): Prompt.UserMessagePart => {
  if (typeof part === "string") return Prompt.textPart({ text: part })
  if (!Json.isFields(part)) throw makeInputError(at, 'expected a part, such as { type: "text", text }')
  if (Prompt.isPart(part) && (part.type === "text" || part.type === "file")) return part
  switch (part["type"]) {
    case "text":
      return Prompt.textPart({ text: requireText(part["text"], `${at}.text`) })
    case "image":
      return toImagePart(part, at)
    case "file":
      return toFilePart(part, at)
    default:
      throw makeInputError(`${at}.type`, describeUnknown(part["type"], userPartTypes))
  }
}

const toUserParts = (content: unknown, at: string): ReadonlyArray<Prompt.UserMessagePart> => {
  if (typeof content === "string") return [Prompt.textPart({ text: content })]
  if (!Array.isArray(content)) throw makeInputError(at, "expected a text, or a list of parts")
  // An array with holes has their places as well.
  return Array.from(content, (part: unknown, index) => toUserPart(part, `${at}[${index}]`))
}

/** Converts the prompt of a run. */
export const toPrompt = (prompt: PlainPrompt): string | ReadonlyArray<Prompt.UserMessagePart> =>
  typeof prompt === "string" ? prompt : toUserParts(prompt, "prompt")

const toAnswerPart = (part: unknown, at: string, calls: Map<string, string>): Prompt.AssistantMessagePart => {
  if (!Json.isFields(part)) throw makeInputError(at, 'expected a part, such as { type: "text", text }')
  switch (part["type"]) {
    case "text":
      return Prompt.textPart({ text: requireText(part["text"], `${at}.text`) })
    case "tool-call": {
      const id = requireText(part["toolCallId"], `${at}.toolCallId`)
      const name = requireText(part["toolName"], `${at}.toolName`)
      calls.set(id, name)
      return Prompt.toolCallPart({ id, name, params: Json.toPlainData(part["input"] ?? {}), providerExecuted: false })
    }
    default:
      throw makeInputError(`${at}.type`, describeUnknown(part["type"], ["text", "tool-call"]))
  }
}

/** Returns the output of a result: the value of an AI SDK output, or the value itself. */
const readResult = (output: unknown): { readonly result: unknown; readonly isFailure: boolean } =>
  Json.isFields(output) && typeof output["type"] === "string" && "value" in output
    ? { result: Json.toPlainData(output["value"] ?? null), isFailure: output["type"].startsWith("error") }
    : { result: Json.toPlainData(output ?? null), isFailure: false }

const toResultPart = (part: unknown, at: string, calls: Map<string, string>): Prompt.ToolResultPart => {
  if (!Json.isFields(part) || part["type"] !== "tool-result")
    throw makeInputError(at, 'expected { type: "tool-result", toolCallId, output }')
  const id = requireText(part["toolCallId"], `${at}.toolCallId`)
  const name = calls.get(id)
  const problem = `no earlier message has a call ${Options.quoteValue(id)}`
  if (name === undefined) throw makeInputError(`${at}.toolCallId`, problem)
  return Prompt.toolResultPart({ id, name, ...readResult(part["output"]), providerExecuted: false })
}

const readList = (content: unknown, at: string): ReadonlyArray<unknown> => {
  if (!Array.isArray(content)) throw makeInputError(at, "expected a list of parts")
  // An array with holes has their places as well.
  return Array.from(content)
}

const toMessage = (message: unknown, at: string, calls: Map<string, string>): Prompt.Message => {
  if (Prompt.isMessage(message)) {
    if (message.role === "assistant")
      for (const part of message.content) if (part.type === "tool-call") calls.set(part.id, part.name)
    return message
  }
  if (!Json.isFields(message)) throw makeInputError(at, "expected a message: { role, content }")
  const { content, role } = message
  const here = `${at}.content`
  switch (role) {
    case "user":
      return Prompt.userMessage({ content: toUserParts(content, here) })
    case "assistant":
      return Prompt.assistantMessage({
        content:
          typeof content === "string"
            ? [Prompt.textPart({ text: content })]
            : readList(content, here).map((part, index) => toAnswerPart(part, `${here}[${index}]`, calls))
      })
    case "tool":
      return Prompt.toolMessage({
        content: readList(content, here).map((part, index) => toResultPart(part, `${here}[${index}]`, calls))
      })
    case "system":
      throw makeInputError(at, "instructions are not part of a conversation: give them as instructions or systemPrompt")
    default:
      throw makeInputError(`${at}.role`, describeUnknown(role, ["user", "assistant", "tool"]))
  }
}

/** Converts the earlier conversation of a run. `at` is the name of the option. */
export const toHistory = (
  messages: ReadonlyArray<PlainMessage | Prompt.Message>,
  at: string
): ReadonlyArray<Prompt.Message> => {
  /** Names of the called tools, by the id of their call. */
  const calls = new Map<string, string>()
  return Array.from(messages, (message, index) => toMessage(message, `${at}[${index}]`, calls))
}
