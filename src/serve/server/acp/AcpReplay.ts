/**
 * Converts a stored conversation to updates of an ACP session, for a client that loads the conversation. Pure.
 *
 * Source: Agent Client Protocol, `session/load`.
 */
import type { ContentBlock, SessionUpdate } from "@agentclientprotocol/sdk/unstable"
import type * as Prompt from "effect/ai/Prompt"
import type { FileChanged } from "../../../base/domain/FileChange.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { ChangeSet } from "../../../store/ChangeSets.ts"
import * as AcpContent from "./AcpContent.ts"
import { makeTurnUpdates, type TurnUpdates, type UpdateContext } from "./AcpUpdates.ts"
import * as RemoteImages from "./RemoteImages.ts"

/** Facts about a stored conversation that are needed to convert it to updates. */
export interface ReplayContext extends Pick<UpdateContext, "resolve" | "hasTerminals"> {
  /** Id of the session that contains the messages. */
  readonly sessionId: string
  /** Files that the runs of the conversation changed, in the order of the runs. */
  readonly changes: ReadonlyArray<Pick<ChangeSet, "changes" | "position" | "sessionId">>
}

/**
 * Returns the files that a call changed. `at` is the position of the call's result. If several runs have a call with
 * this id, the run at that position is used.
 */
const findChanges = (callId: string, at: number, { changes, sessionId }: ReplayContext): ReadonlyArray<FileChanged> => {
  const runs = changes.filter((run) => run.changes.some((one) => one.callId === callId))
  const here = runs.findLast((run) => run.sessionId === sessionId && run.position !== undefined && run.position <= at)
  return ((runs.length === 1 ? undefined : here) ?? runs.at(-1))?.changes.filter((one) => one.callId === callId) ?? []
}

const replayPart = (
  part: Prompt.Part,
  turn: TurnUpdates,
  changed: (callId: string) => ReadonlyArray<FileChanged>
): ReadonlyArray<SessionUpdate> => {
  switch (part.type) {
    case "text":
      return part.text === ""
        ? []
        : [AcpContent.makeMessageChunk(RemoteImages.replaceRemoteImages(Redaction.redactKeys(part.text)))]
    case "reasoning":
      return part.text === "" ? [] : [AcpContent.makeThoughtChunk(part.text)]
    case "tool-call":
      return turn.of({ _tag: "ToolStarted", callId: part.id, name: part.name, params: part.params })
    case "tool-result":
      return [
        ...changed(part.id),
        {
          _tag: "ToolFinished" as const,
          callId: part.id,
          name: part.name,
          status: part.isFailure ? ("error" as const) : ("ok" as const),
          output: Json.toText(part.result),
          durationMillis: 0
        }
      ].flatMap(turn.of)
    default:
      return []
  }
}

const toUserBlock = (part: Prompt.UserMessagePart): ContentBlock =>
  part.type === "text" ? AcpContent.makeTextBlock(part.text) : AcpContent.makeTextBlock(`[${part.mediaType}]`)

/**
 * Returns the updates that show a stored conversation to a client that opens it. Calls are shown in their final state.
 */
export const replayMessages = (
  messages: ReadonlyArray<Prompt.Message>,
  context: ReplayContext
): ReadonlyArray<SessionUpdate> => {
  const startTurnUpdates = () => makeTurnUpdates(true, { ...context, window: () => undefined })
  let turn = startTurnUpdates()
  const updates = messages.flatMap((one, at): ReadonlyArray<SessionUpdate> => {
    if (one.role === "system") return []
    if (one.role !== "user")
      return one.content.flatMap((part) => replayPart(part, turn, (callId) => findChanges(callId, at, context)))
    const left = turn.end()
    turn = startTurnUpdates()
    return [
      ...left,
      ...one.content.map((part): SessionUpdate => ({ sessionUpdate: "user_message_chunk", content: toUserBlock(part) }))
    ]
  })
  return [...updates, ...turn.end()]
}
