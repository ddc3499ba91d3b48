/**
 * The toolset `todo`: the model's own task list, one per session.
 *
 * **Details**
 *
 * A call without `todos` returns the list. Otherwise the given items replace the list or, with `merge`, change and
 * extend it. A known item needs only its changed fields. Invalid input (too many items, an item that is too long or has
 * no text) is an error and changes nothing.
 *
 * Lists live in {@link TodoState}, in memory. In a runtime a missing list is read from the stored messages of its
 * session ({@link layerOfSessions}), so that a resumed session has its list.
 *
 * **Example** (Updating a list with a pure function)
 *
 * ```ts
 * import * as Result from "effect/Result"
 * import { Todo } from "hermes-effect/tools/planning"
 *
 * const list = Todo.update([], [{ id: "1", content: "write the test", status: "pending" }], false)
 *
 * console.log(Result.getOrThrow(list).map(({ status }) => status))
 * // => [ 'pending' ]
 * ```
 *
 * **Example** (Reading lists in an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Ids } from "hermes-effect"
 * import { Todo } from "hermes-effect/tools/planning"
 *
 * const session = Ids.SessionId.make("s1")
 *
 * const program = Effect.gen(function*() {
 *   const lists = yield* Todo.TodoState
 *   yield* lists.set(session, [{ id: "1", content: "write the test", status: "completed" }])
 *   return (yield* lists.get(session)).length
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Todo.layer)))
 * // => 1
 * ```
 *
 * Source: `hermes-product.md` §2.3, `hermes-llm.md` §3 and §10.6.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import { SessionStore } from "../../store/SessionStorePort.ts"
import { ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"
import * as Problem from "./file/Problem.ts"

const maxItems = 256
const maxChars = 4_000
const maxSessions = 1_024

/** Progress of an item. */
export const Status = Schema.Literals(["pending", "in_progress", "completed", "cancelled"])
/** See {@link Status}. */
export type Status = typeof Status.Type

/** One task of a list. */
export const Item = Schema.Struct({ id: Schema.String, content: Schema.String, status: Status })
/** See {@link Item}. */
export type Item = typeof Item.Type

/** An item as passed by the model. */
const Given = Schema.Struct({
  id: Schema.String,
  content: Schema.optionalKey(Schema.String.annotate({ description: "Needed for a new item" })),
  status: Schema.optionalKey(Status)
})

const Summary = Schema.Struct({
  total: Schema.Natural,
  pending: Schema.Natural,
  in_progress: Schema.Natural,
  completed: Schema.Natural,
  cancelled: Schema.Natural
})

const Answer = Schema.Struct({ todos: Schema.Array(Item), summary: Summary })

/** The toolset `todo`. */
export const tool = Tool.make("todo", {
  description:
    "Your task list for this session, for work of three steps or more: write the steps down first, set one item to " +
    "in_progress while you work on it, and to completed as soon as it is done. todos replaces the list, most " +
    "important first; with merge, other items are kept. Returns the whole list, also without todos. At most 256 " +
    "items of 4000 characters.",
  parameters: Schema.Struct({
    todos: Schema.optionalKey(Schema.Array(Given)),
    merge: Schema.optionalKey(Schema.Boolean)
  }),
  success: Answer,
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)

/** Applies the given items to a list. Returns the new list, or the reason why the items are invalid. */
export const update = (
  list: ReadonlyArray<Item>,
  given: ReadonlyArray<typeof Given.Type>,
  merge: boolean
): Result.Result<ReadonlyArray<Item>, string> => {
  const known = new Map(list.map((item) => [item.id, item]))
  const next = new Map(merge ? known : [])
  for (const { content, id, status } of given) {
    const before = next.get(id) ?? known.get(id)
    const item = { id, content: content ?? before?.content ?? "", status: status ?? before?.status ?? "pending" }
    if (id.trim() === "") return Result.fail("an item has no id")
    if (item.content.trim() === "") return Result.fail(`item "${id}" has no content`)
    if (item.content.length > maxChars) {
      return Result.fail(`item "${id}" has ${item.content.length} characters, more than ${maxChars}`)
    }
    next.set(id, item)
  }
  return next.size > maxItems
    ? Result.fail(`the list would have ${next.size} items, more than ${maxItems}`)
    : Result.succeed(Array.from(next.values()))
}

/** Returns a list as the result of the tool. */
const toAnswer = (todos: ReadonlyArray<Item>): typeof Answer.Type => {
  const countStatus = (status: Status): number => todos.filter((item) => item.status === status).length
  return {
    todos,
    summary: {
      total: todos.length,
      pending: countStatus("pending"),
      in_progress: countStatus("in_progress"),
      completed: countStatus("completed"),
      cancelled: countStatus("cancelled")
    }
  }
}

const decodeAnswer = Schema.decodeUnknownOption(Answer)

/** Returns the list of the last successful `todo` call in a conversation, or an empty list. */
export const fromHistory = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Item> => {
  for (const message of messages.toReversed()) {
    if (message.role !== "tool") continue
    for (const part of message.content.toReversed()) {
      if (part.type !== "tool-result" || part.name !== tool.name || part.isFailure) continue
      const value = typeof part.result === "string" ? Json.parse(part.result) : Option.some(part.result)
      const answer = Option.flatMap(value, decodeAnswer)
      if (Option.isSome(answer)) return answer.value.todos
    }
  }
  return []
}

/** Task lists by session. */
export interface State {
  readonly get: (session: SessionId) => Effect.Effect<ReadonlyArray<Item>, SessionStoreError>
  readonly set: (session: SessionId, list: ReadonlyArray<Item>) => Effect.Effect<void>
  readonly remove: (session: SessionId) => Effect.Effect<void>
}

/** The todo lists of a runtime. */
export class TodoState extends Context.Service<TodoState, State>()("hermes-effect/tool/TodoState") {}

const make = (absent: State["get"]): State => {
  const lists = new Map<SessionId, ReadonlyArray<Item>>()
  return {
    get: (session) =>
      Effect.suspend(() => {
        const list = lists.get(session)
        return list === undefined ? absent(session) : Effect.succeed(list)
      }),
    set: (session, list) =>
      Effect.sync(() => {
        lists.delete(session)
        lists.set(session, list)
        const oldest = lists.keys().next()
        if (lists.size > maxSessions && oldest.done !== true) lists.delete(oldest.value)
      }),
    remove: (session) =>
      Effect.sync(() => {
        lists.delete(session)
      })
  }
}

/**
 * Provides empty lists in memory. Lists of at most a thousand sessions are stored; the least recently written lists are
 * dropped.
 */
export const layer: Layer.Layer<TodoState> = Layer.sync(TodoState, () => make(() => Effect.succeed([])))

/** Like {@link layer}, but reads a list that is not in memory from the stored messages of its session. */
export const layerOfSessions: Layer.Layer<TodoState, never, SessionStore> = Layer.effect(
  TodoState,
  Effect.map(SessionStore, ({ get, messages }) => {
    const readStoredList = (session: SessionId): Effect.Effect<ReadonlyArray<Item>, SessionStoreError> =>
      Effect.flatMap(messages(session), (stored) => {
        const list = fromHistory(stored)
        const isThere = stored.some(
          (message) =>
            message.role === "tool" &&
            message.content.some((part) => part.type === "tool-result" && part.name === tool.name)
        )
        if (list.length > 0 || isThere) return Effect.succeed(list)
        // After a compaction, the list may be stored under the previous session.
        return Effect.flatMap(get(session), (found) => {
          const before = Option.getOrUndefined(found)?.continues
          return before === undefined ? Effect.succeed(list) : readStoredList(before)
        })
      })
    return make(readStoredList)
  })
)

const toolkit = Toolkit.make(tool)

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const state = yield* TodoState
    return {
      todo: Effect.fnUntraced(function* ({ merge = false, todos }) {
        const { sessionId } = yield* ToolContext
        const list = yield* Effect.catch(state.get(sessionId), (error) =>
          Problem.fail(`the list cannot be read: ${error.message}`)
        )
        if (todos === undefined) return toAnswer(list)
        const next = update(list, todos, merge)
        if (Result.isFailure(next)) return yield* Problem.fail(`${next.failure}: nothing was changed`)
        yield* state.set(sessionId, next.success)
        return toAnswer(next.success)
      }, Problem.mapToFailure)
    }
  })
)

/** The toolset `todo`. */
export const toolset: Toolset.Toolset<never, TodoState> = Toolset.make("todo", toolkit, handlers)
