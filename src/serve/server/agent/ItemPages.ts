/**
 * Lists of items in OpenAI's form, and the ids of conversations.
 *
 * Source: OpenAI API reference, conversations.
 */
import * as Effect from "effect/Effect"
import type * as Json from "../../../base/domain/Json.ts"
import * as ApiError from "../ApiError.ts"
import { parseWholeNumber } from "../OpenAiShapes.ts"

const prefix = "conv_"

/** Returns the id of the conversation of a session. */
export const formatConversationId = (session: string): string => `${prefix}${session}`

/** Reads the session of a conversation's id. */
export const readConversationId = (id: string): Effect.Effect<string, ApiError.ApiError> =>
  id.startsWith(prefix)
    ? Effect.succeed(id.slice(prefix.length))
    : Effect.fail(ApiError.make(404, "conversation_not_found", `There is no conversation "${id}".`))

/** Makes a list of all given items. */
export const makeItemList = (data: ReadonlyArray<Json.Fields>, hasMore = false): Json.Fields => ({
  object: "list",
  data,
  first_id: data[0]?.["id"] ?? null,
  last_id: data.at(-1)?.["id"] ?? null,
  has_more: hasMore
})

/** Selects a page of items, which are given with the oldest first. The newest ones are first by default. */
export const pageItems = Effect.fnUntraced(function* (
  items: ReadonlyArray<Json.Fields>,
  { after, limit, order = "desc" }: Readonly<Record<string, string | undefined>>
): Effect.fn.Return<Json.Fields, ApiError.ApiError> {
  const most = yield* parseWholeNumber("limit", limit, { least: 1, most: 100, other: 20 })
  if (order !== "asc" && order !== "desc") return yield* ApiError.refuseField("order", "order is asc or desc.")
  const ordered = order === "asc" ? items : items.toReversed()
  const at = after === undefined ? -1 : ordered.findIndex(({ id }) => id === after)
  if (after !== undefined && at === -1)
    return yield* ApiError.refuseField("after", `after: there is no item "${after}".`)
  const rest = ordered.slice(at + 1)
  return makeItemList(rest.slice(0, most), rest.length > most)
})
