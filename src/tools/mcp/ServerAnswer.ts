/**
 * Converts a server's answer to a tool result: one text for the model, and the images that go with it. Pure.
 *
 * **Details**
 *
 * The text has a limited length, with a note at the cut. Structured content is used if there is no text. Content
 * that cannot be shown to a model is described.
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-product.md` §2.4.
 */
import * as Schema from "effect/Schema"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as ToolContent from "../../base/domain/ToolContent.ts"
import type { Block, CallResult } from "./McpConnection.ts"

/** Maximum number of retained characters of a result. */
const maxResultChars = 1_000_000

const maxMediaChars = 8_000_000

/** Result of a tool of a server: its text, or text and images. */
export const Success = Schema.Union([Schema.String, ToolContent.ToolContent])
/** See {@link Success}. */
export type Success = typeof Success.Type

/** Result for the model if a call failed. */
export const Failure = Schema.Struct({ error: Schema.String })
/** See {@link Failure}. */
export type Failure = typeof Failure.Type

const isShown = ({ data, mimeType }: { readonly data: string; readonly mimeType: string }): boolean =>
  /^image\/(?:png|jpeg|gif|webp)$/.test(mimeType) && data.length <= maxMediaChars

const renderBlock = (block: Block): string => {
  switch (block.type) {
    case "text":
      return block.text
    case "link":
      return `[resource ${block.name ?? ""} ${block.uri}]`
    case "media":
      return isShown(block) ? "" : `[${block.mimeType}, ${Math.floor(block.data.length * 0.75)} bytes, not shown]`
  }
}

/** Limits the length of a text. */
export const limitText = (text: string): string =>
  text.length <= maxResultChars
    ? text
    : `${TextCut.takeHead(text, maxResultChars)}\n[cut: ${text.length - maxResultChars} of ${text.length} ` +
      "characters are left out]"

/** Converts content blocks to a result. */
export const fromBlocks = (blocks: ReadonlyArray<Block>): Success => {
  const text = limitText(
    blocks
      .map(renderBlock)
      .filter((part) => part !== "")
      .join("\n")
  )
  const images = blocks
    .flatMap((block) =>
      block.type === "media" && isShown(block) ? [ToolContent.fromImage(block.data, block.mimeType)] : []
    )
    .slice(0, ToolContent.maxFiles)
  if (images.length === 0) return text
  return text === "" ? ToolContent.joinContent(...images) : ToolContent.joinContent(text, ...images)
}

const isEmpty = (result: Success): boolean => result === ""

/** Converts the answer to a call to a result. */
export const fromCall = ({ blocks, structured }: CallResult): Success => {
  const result = fromBlocks(blocks)
  return isEmpty(result) && structured !== undefined ? limitText(JSON.stringify(structured)) : result
}
