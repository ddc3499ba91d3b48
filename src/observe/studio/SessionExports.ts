/**
 * Export of sessions as lines of a dataset: ATIF trajectories, or conversations for training (ShareGPT).
 *
 * Source: `relay-atof-atif.md` §2, `hermes-product.md` §5.2.
 */
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import type { ToolDefinition } from "../../base/domain/ModelCall.ts"
import type * as Atif from "../Atif.ts"
import * as FromRuns from "../atif/FromRuns.ts"
import { toOutputText } from "../atif/RunContent.ts"
import type { Tree } from "../RunTree.ts"
import { toFileName } from "../../base/domain/Ids.ts"
import type { ExportFormat, SessionSummary } from "./StudioApi.ts"

const formatTrajectoryName = (id: string): string => `trajectory-${toFileName(id)}.json`

/** Returns the file name of a session in an archive. */
export const formatFileName = (format: ExportFormat, { id }: SessionSummary): string =>
  format === "atif" ? formatTrajectoryName(id) : `${toFileName(id)}.${format === "jsonl" ? "jsonl" : "json"}`

/**
 * Returns the trajectory of a session with its scores, or `undefined` if the session is empty. `next` is the session
 * that continues it; the trajectory refers to its file.
 */
export const exportTrajectory = (
  tree: Tree,
  { id, replayOf, scores }: SessionSummary,
  next: string | undefined
): Atif.Trajectory | undefined => {
  const own = FromRuns.buildTrajectory(tree, id)
  if (own === undefined) return undefined
  const trajectory = next === undefined ? own : { ...own, continued_trajectory_ref: formatTrajectoryName(next) }
  const extra = {
    ...(scores.length === 0
      ? {}
      : {
          scores: scores.map(({ comment, name, run, value }) => ({
            name,
            value,
            run: run ?? null,
            comment: comment ?? null
          }))
        }),
    ...(replayOf === undefined
      ? {}
      : { replay_of: { session_id: replayOf.session, position: replayOf.position, changed: [...replayOf.changed] } })
  }
  return Object.keys(extra).length === 0 ? trajectory : { ...trajectory, extra: { ...trajectory.extra, ...extra } }
}

/** A turn of a training conversation. */
export interface Turn {
  readonly from: "system" | "human" | "gpt" | "tool"
  readonly value: string
}

const renderInstructions = (tools: ReadonlyArray<ToolDefinition>): string => {
  const listed = tools.map(({ description, name, parameters }) => ({ name, description, parameters, required: null }))
  return (
    "You are a function calling AI model. You are provided with function signatures within <tools> </tools> XML tags. " +
    "You may call one or more " +
    "functions to assist with the user query. Don't make assumptions about what values to plug into functions. " +
    "For each function call return a JSON " +
    `object with the function's name and its arguments within <tool_call> </tool_call> XML tags.\n` +
    `<tools>\n${JSON.stringify(listed)}\n</tools>`
  )
}

const parseMaybeJson = (text: string): unknown =>
  Option.getOrElse(/^\s*[[{]/u.test(text) ? Json.parse(text) : Option.none(), () => text)

const renderBlock = (name: string, value: unknown): string => `<${name}>\n${JSON.stringify(value)}\n</${name}>`

const renderAnswer = ({ content }: Prompt.AssistantMessage): string => {
  const joinParts = (type: "reasoning" | "text"): string =>
    content.flatMap((part) => (part.type === type ? [part.text] : [])).join("\n")
  const calls = content.flatMap((part) =>
    part.type === "tool-call"
      ? [
          renderBlock("tool_call", {
            name: part.name,
            arguments: typeof part.params === "object" && part.params !== null ? part.params : {}
          })
        ]
      : []
  )
  // A turn without reasoning gets an empty block, so that all turns have the same form.
  return [`<think>\n${joinParts("reasoning")}\n</think>`, joinParts("text"), ...calls]
    .filter((part) => part !== "")
    .join("\n")
}

const renderQuestion = (content: Prompt.UserMessage["content"]): string =>
  content
    .map((part) =>
      part.type === "text" ? part.text : part.mediaType.startsWith("image/") ? "[screenshot]" : `[${part.mediaType}]`
    )
    .join("\n")

/** Converts the conversation of a session to turns. Consecutive results form one turn. */
const toTurns = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Turn> => {
  const turns: Array<Turn> = []
  for (const message of messages) {
    if (message.role === "user") turns.push({ from: "human", value: renderQuestion(message.content) })
    else if (message.role === "assistant") turns.push({ from: "gpt", value: renderAnswer(message) })
    else if (message.role === "tool") {
      const value = message.content
        .flatMap((part) =>
          part.type === "tool-result"
            ? [
                renderBlock("tool_response", {
                  tool_call_id: part.id,
                  name: part.name,
                  content: parseMaybeJson(toOutputText(part.result))
                })
              ]
            : []
        )
        .join("\n")
      const before = turns.at(-1)
      if (before?.from === "tool") turns[turns.length - 1] = { from: "tool", value: `${before.value}\n${value}` }
      else turns.push({ from: "tool", value })
    }
  }
  return turns
}

/** Returns a session as a training conversation, or `undefined` for a session without messages. */
export const toShareGpt = (tree: Tree, summary: SessionSummary) => {
  const turns = toTurns(tree.conversation(summary.id).flatMap(({ message }) => message ?? []))
  if (turns.length === 0) return undefined
  const attempt = tree.roots
    .filter(({ sessionId }) => sessionId === summary.id)
    .flatMap(({ steps }) => steps.flatMap(({ attempts }) => attempts))[0]
  const tools = attempt === undefined ? [] : tree.tools(attempt)
  return {
    id: summary.id,
    conversations: [{ from: "system", value: renderInstructions(tools) } as const, ...turns],
    timestamp: new Date(summary.startedAt).toISOString(),
    model: summary.models[0] ?? "",
    completed: summary.status === "ok",
    ...(summary.scores.length === 0
      ? {}
      : { scores: Object.fromEntries(summary.scores.map(({ name, value }) => [name, value])) })
  }
}
