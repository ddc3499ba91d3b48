/**
 * Writes parts as output items of the Responses API. `Decode` reads them back to the same parts.
 *
 * @since 0.1.0
 */
import type { ContentPart } from "../../domain/Model.ts"
import * as Raw from "../Raw.ts"

/** See the module. */
export const output = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<Raw.Fields> =>
  parts.flatMap((part): ReadonlyArray<Raw.Fields> => {
    const own = Raw.fields(part.metadata["codex_responses"])
    switch (part.type) {
      case "reasoning": {
        const { summary, ...rest } = own
        const texts = summary === undefined ? (part.text === "" ? [] : [part.text]) : Raw.items(summary)
        return [{ type: "reasoning", ...rest, summary: texts.map((text) => ({ type: "summary_text", text })) }]
      }
      case "text":
        return [{
          type: "message",
          role: "assistant",
          status: "completed",
          ...own,
          content: [{ type: "output_text", text: part.text, annotations: [] }]
        }]
      case "tool-call":
        return [{
          type: "function_call",
          ...own,
          call_id: part.id,
          name: part.name,
          arguments: typeof part.params === "string" ? part.params : JSON.stringify(part.params),
          status: "completed"
        }]
      default:
        return []
    }
  })
