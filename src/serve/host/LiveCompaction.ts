/** Compacts the conversation of a live session between its turns. */
import * as Effect from "effect/Effect"
import type { Agent } from "../../agent/Agent.ts"
import type * as ContextFit from "../../agent/ContextFit.ts"
import { type AgentError, SessionBusy } from "../../base/domain/AgentError.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import type * as LiveTurns from "./LiveTurns.ts"
import type * as SessionMoves from "./SessionMoves.ts"
import type * as StateOwner from "./StateOwner.ts"
import type * as TurnRun from "./TurnRun.ts"

/** Options for summarizing a conversation. */
export interface CompactOptions {
  /** Subject that the summary focuses on. */
  readonly focus?: string | undefined
  /** Number of recent exchanges that remain unchanged. */
  readonly keepExchanges?: number | undefined
}

/** Result of a compaction. If a problem left the conversation unchanged, `warning` contains the reason. */
export interface LiveCompaction extends ContextFit.CompactionResult {
  readonly warning: string | undefined
}

/** Parts of a live session that a compaction uses. */
interface CompactedSession {
  readonly agent: Agent["Service"]
  readonly owner: StateOwner.StateOwner
  readonly moves: SessionMoves.SessionMoves
  readonly turns: LiveTurns.LiveTurns
}

/**
 * Makes the function that compacts the conversation. No turn can begin during a compaction. Fails if a turn is running.
 */
export const makeCompaction =
  (
    { agent, moves, owner, turns }: CompactedSession,
    input: TurnRun.RunOptions["input"]
  ): ((options?: CompactOptions) => Effect.Effect<LiveCompaction, AgentError>) =>
  ({ focus, keepExchanges } = {}) => {
    const holdIdle = Effect.suspend(() => {
      const { turn } = owner.state()
      return turn === undefined ? turns.hold(1) : Effect.fail(new SessionBusy({ sessionId: turn.sessionId }))
    })
    return Effect.scoped(
      Effect.gen(function* () {
        yield* Effect.acquireRelease(owner.run(holdIdle), () => Effect.sync(() => void owner.post(turns.hold(-1))))
        let warning: string | undefined
        const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
          Effect.sync(() => {
            for (const event of events)
              if (event._tag === "Notice" && event.level === "warning") warning = event.message
          })
        const { effort: reasoningEffort, route, session } = owner.state()
        const { cwd, id: sessionId } = session
        const compacted = yield* agent.compact({
          sessionId,
          cwd,
          // The requests of the turns, which the request for a note continues.
          tenant: input?.tenant,
          tools: input?.tools,
          ephemeralSystemPrompt: input?.ephemeralSystemPrompt,
          reasoningEffort,
          route,
          focus,
          keepExchanges,
          onEvent
        })
        if (compacted.sessionId !== sessionId) yield* owner.run(moves.follow)
        return { ...compacted, warning }
      })
    )
  }
