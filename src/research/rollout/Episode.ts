/**
 * An episode records all events of one rollout as append-only entries. Its state is derived from the entries.
 *
 * **Details**
 *
 * A **node** is one sequence of tokens that grew only by appending: the prompt of each call begins with the tokens of
 * all earlier calls, as they were sampled. A call begins a new node if its messages do not extend the messages of the
 * current node, or if its prompt was tokenized differently. Only the last node counts for training (`hermes-product.md`
 * §5.5). Tokens are stored as the provider returned them. This module does not tokenize text.
 *
 * **Example** (A request that continues an episode)
 *
 * ```ts
 * import { Episode } from "hermes-effect/rollouts"
 *
 * const place = Episode.locateMessages({ nodes: [] }, [{ role: "user", content: "hi" }])
 *
 * console.log("fresh" in place ? place.fresh.length : `message ${place.differsAt + 1} is another one`)
 * // => 1
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Json from "../../base/domain/Json.ts"

/** Version of the entries in a file. */
export const version = 1

/** First entry of an episode. */
export interface BeginEntry {
  readonly type: "rollout"
  readonly v: number
  readonly at: string
  readonly rollout_id: string
  readonly group_id: string
  readonly model: string
  readonly weights_version?: string | undefined
  readonly sampling: Json.Fields
  readonly on_divergence: "refuse" | "branch"
  readonly tool_call_parser?: string | undefined
  readonly metadata: Json.Fields
}

/** Entry written before a request is sent. */
interface CallEntry {
  readonly type: "call"
  readonly call: number
  readonly at: string
}

/** Reason why a node began. */
export type NodeCause = "begin" | "history_diverged" | "retokenised" | "tokens_missing"

/** Entry with an answer and the new part of its request. */
export interface AnswerEntry {
  readonly type: "answer"
  readonly call: number
  readonly at: string
  /** Set if the answer begins a node. `messages` and `prompt` are then complete. */
  readonly node?: NodeCause | undefined
  /** New messages of the request, which follow the messages that the node already contains. */
  readonly messages: ReadonlyArray<Json.Fields>
  readonly tools?: ReadonlyArray<unknown> | undefined
  readonly answer: Json.Fields
  readonly finish_reason?: string | undefined
  readonly stop_reason?: unknown
  readonly model?: string | undefined
  readonly sampling: Json.Fields
  readonly usage?: Json.Fields | undefined
  /** New tokens of the prompt, which follow the tokens that the node already contains. */
  readonly prompt?: ReadonlyArray<number> | undefined
  readonly tokens?: ReadonlyArray<number> | undefined
  readonly logprobs?: ReadonlyArray<number> | undefined
  readonly problems: ReadonlyArray<string>
}

/** Entry for a call without an answer: it failed, or its client disconnected. */
interface FailureEntry {
  readonly type: "failed" | "interrupted"
  readonly call: number
  readonly at: string
  readonly message: string
}

/** Entry that ends an episode. */
interface FinishEntry {
  readonly type: "finished"
  readonly at: string
  readonly reward?: number | undefined
  readonly components?: Readonly<Record<string, number>> | undefined
  readonly cause?: string | undefined
  readonly exit?: string | undefined
}

/** Entry with the advantage of the episode in its group. It is written when all members of the group are scored. */
interface AdvantageEntry {
  readonly type: "advantage"
  readonly at: string
  readonly advantage: number
}

/** Entry with the log probabilities that a reference model assigns to the tokens of the last node. */
interface ReferenceEntry {
  readonly type: "reference"
  readonly at: string
  readonly logprobs: ReadonlyArray<number>
}

/** One entry (line) of an episode. */
export type Entry = BeginEntry | CallEntry | AnswerEntry | FailureEntry | FinishEntry | AdvantageEntry | ReferenceEntry

/** One sequence of tokens that grew only by appending. */
export interface Node {
  readonly cause: NodeCause
  readonly answers: ReadonlyArray<AnswerEntry>
  /** All messages of the sequence, including the last answer. */
  readonly messages: ReadonlyArray<Json.Fields>
  /** All tokens of the sequence, or `undefined` if the tokens of an answer are missing. */
  readonly tokens: ReadonlyArray<number> | undefined
}

/** State of an episode, derived from all of its entries. */
export interface Episode extends Omit<BeginEntry, "type" | "v"> {
  readonly nodes: ReadonlyArray<Node>
  /** Number of the next call. */
  readonly calls: number
  /** Numbers of the calls that began and have not ended. */
  readonly open: ReadonlySet<number>
  readonly failed: number
  readonly interrupted: number
  readonly finished: FinishEntry | undefined
  readonly advantage: number | undefined
  readonly reference: ReadonlyArray<number> | undefined
}

const beginEpisode = (entry: BeginEntry): Episode => {
  const { type: _, v: __, ...facts } = entry
  return {
    ...facts,
    nodes: [],
    calls: 0,
    open: new Set(),
    failed: 0,
    interrupted: 0,
    finished: undefined,
    advantage: undefined,
    reference: undefined
  }
}

/** Returns the node after an answer: the previous node with the answer appended, or a new node. */
const growNode = (before: Node | undefined, entry: AnswerEntry): Node => {
  const isNew = entry.node !== undefined || before === undefined
  const known = isNew ? [] : before.tokens
  return {
    cause: isNew ? (entry.node ?? "begin") : before.cause,
    answers: isNew ? [entry] : [...before.answers, entry],
    messages: [...(isNew ? [] : before.messages), ...entry.messages, entry.answer],
    tokens:
      known === undefined || entry.prompt === undefined || entry.tokens === undefined
        ? undefined
        : [...known, ...entry.prompt, ...entry.tokens]
  }
}

const closeCall = (open: ReadonlySet<number>, call: number): ReadonlySet<number> =>
  new Set(Array.from(open).filter((one) => one !== call))

/** Applies an entry to an episode. Returns the new state, or `undefined` if the episode has not begun yet. */
export const apply = (episode: Episode | undefined, entry: Entry): Episode | undefined => {
  if (entry.type === "rollout") return episode ?? beginEpisode(entry)
  if (episode === undefined) return undefined
  switch (entry.type) {
    case "call":
      return { ...episode, calls: Math.max(episode.calls, entry.call + 1), open: new Set(episode.open).add(entry.call) }
    case "answer": {
      const last = episode.nodes.at(-1)
      const node = growNode(last, entry)
      const before = entry.node === undefined && last !== undefined ? episode.nodes.slice(0, -1) : episode.nodes
      return { ...episode, nodes: [...before, node], open: closeCall(episode.open, entry.call) }
    }
    case "failed":
      return { ...episode, failed: episode.failed + 1, open: closeCall(episode.open, entry.call) }
    case "interrupted":
      return { ...episode, interrupted: episode.interrupted + 1, open: closeCall(episode.open, entry.call) }
    case "finished":
      return { ...episode, finished: entry }
    case "advantage":
      return { ...episode, advantage: entry.advantage }
    case "reference":
      return { ...episode, reference: entry.logprobs }
  }
}

/** Matches reasoning inside the text of an answer. Clients that show reasoning separately omit it from the history. */
const thinking = /<think>[^]*?<\/think>/gu

const normaliseContent = (content: unknown): string => {
  if (content === undefined || content === null) return ""
  const [only, ...more] = Json.readItems(content)
  const part = Json.readFields(only)
  const text =
    more.length === 0 && part["type"] === "text"
      ? Json.readWord(part["text"])
      : typeof content === "string"
        ? content
        : JSON.stringify(content)
  return text.includes("<think>") ? text.replace(thinking, "").trim() : text.trim()
}

/** Returns the value with the fields of its objects sorted by name. */
const sortFields = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sortFields)
    : Json.isFields(value)
      ? Object.fromEntries(
          Object.entries(value)
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, one]) => [name, sortFields(one)])
        )
      : value

const normaliseArguments = (value: unknown): string =>
  JSON.stringify(sortFields(typeof value === "string" ? Json.parseOrKeep(value) : (value ?? {})))

const normaliseCalls = (message: Json.Fields): string =>
  JSON.stringify(
    Json.readItems(message["tool_calls"]).map((one) => {
      const call = Json.readFields(one)
      const { arguments: args, name } = Json.readFields(call["function"])
      return [call["id"], name, normaliseArguments(args)]
    })
  )

/**
 * Returns true if two messages are equal. Differences in empty content, reasoning, and white space in arguments are
 * ignored, because clients change these.
 */
export const isSameMessage = (one: Json.Fields, other: Json.Fields): boolean =>
  one["role"] === other["role"] &&
  normaliseContent(one["content"]) === normaliseContent(other["content"]) &&
  one["tool_call_id"] === other["tool_call_id"] &&
  normaliseCalls(one) === normaliseCalls(other)

/**
 * Result of {@link locateMessages}. If a request continues the episode, `fresh` contains its new messages, and `whole`
 * contains the episode's stored messages followed by the new ones. Otherwise `differsAt` is the index of the first
 * message that differs.
 */
export type MessagePlace =
  | { readonly fresh: ReadonlyArray<Json.Fields>; readonly whole: ReadonlyArray<Json.Fields> }
  | { readonly differsAt: number }

/**
 * Compares the messages of a request with the last node of an episode, and finds the new messages. In the first request
 * of an episode, all messages are new.
 */
export const locateMessages = (
  { nodes }: Pick<Episode, "nodes">,
  messages: ReadonlyArray<Json.Fields>
): MessagePlace => {
  const known = nodes.at(-1)?.messages ?? []
  const differsAt = known.findIndex((message, index) => {
    const given = messages[index]
    return given === undefined || !isSameMessage(message, given)
  })
  if (differsAt !== -1) return { differsAt }
  const fresh = messages.slice(known.length)
  return { fresh, whole: [...known, ...fresh] }
}

/** Returns true if a list begins with the elements of another list. */
export const startsWith = (list: ReadonlyArray<number>, start: ReadonlyArray<number>): boolean =>
  list.length >= start.length && start.every((one, index) => list[index] === one)

/**
 * Returns the prompt tokens to store with an answer, and the cause of a new node if they do not continue the last node.
 */
export const splitPrompt = (
  node: Node | undefined,
  prompt: ReadonlyArray<number> | undefined
): { readonly prompt: ReadonlyArray<number> | undefined; readonly node: NodeCause | undefined } => {
  if (node === undefined) return { prompt, node: "begin" }
  if (prompt === undefined) return { prompt, node: undefined }
  if (node.tokens === undefined) return { prompt, node: "tokens_missing" }
  return startsWith(prompt, node.tokens)
    ? { prompt: prompt.slice(node.tokens.length), node: undefined }
    : { prompt, node: "retokenised" }
}
