/**
 * View of a single query: a projection of the run's events onto stdout and stderr.
 */
import type * as Effect from "effect/Effect"
import type { Values } from "../config/Settings.ts"
import type { Spent } from "../domain/Cost.ts"
import type { RunEvent, RunResult } from "../domain/RunEvent.ts"
import type { Usage } from "../domain/Usage.ts"

/** Facts known before the start. */
export interface RunHeader {
  readonly model: string
  readonly sessionId: string
}

/** Options known before the first event. */
export interface ViewOptions {
  readonly display: Values["display"]
  /** False where the final text may still be replaced, so that nothing of it may be shown before. */
  readonly live: boolean
}

/** Result of a run, in every case. */
export interface RunSummary {
  readonly exitCode: number
  readonly sessionId: string
  /** The final text; what there is of it when the run was cut. */
  readonly text: string
  readonly usage: Usage
  readonly cost: Spent
  /** The route that answered last, or that was to; absent where nothing was asked. */
  readonly route?: { readonly provider: string; readonly model: string } | undefined
  /** Why it is not a completed run. */
  readonly error: string | undefined
  /** The exit of a run that ended early with a result; absent for a completed run and for one that failed. */
  readonly exit?: RunResult["exit"] | undefined
}

/** An ending comes in every case, without the rest where the start failed. */
export interface View {
  readonly begin: (beginning: RunHeader) => Effect.Effect<void>
  readonly prepare: (circumstances: ViewOptions) => void
  readonly events: (events: ReadonlyArray<RunEvent>) => Effect.Effect<void>
  readonly end: (ending: RunSummary) => Effect.Effect<void>
  /** Keeps what is shown of the present up to date, until it is interrupted. */
  readonly live?: Effect.Effect<never> | undefined
  /** Says a line without disturbing what is shown. */
  readonly note?: ((line: string) => void) | undefined
}
