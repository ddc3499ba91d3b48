/**
 * One query: one run of the agent, shown by a view, and an exit code that says how it ended.
 *
 * **Details**
 *
 * The session id is on stderr before the answer. Whatever happens, the view gets its ending, and what went wrong is one line
 * on stderr. What plugins print to stdout goes to stderr.
 *
 * Source: `hermes-product.md` §1.3 and §1.5, `ARCHITECTURE.md` §7.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Agent from "../agent/Agent.ts"
import type { RunInput } from "../agent/RunInput.ts"
import * as Config from "../config/Config.ts"
import { Settings, type Values } from "../config/Settings.ts"
import * as Ids from "../domain/Ids.ts"
import { isCompleted, type RunEvent, type RunResult } from "../domain/RunEvent.ts"
import * as Usage from "../domain/Usage.ts"
import { Hooks } from "../hooks/Hooks.ts"
import * as Offline from "../provider/Offline.ts"
import { ModelRouter } from "../routing/ModelRouter.ts"
import * as Ending from "./Ending.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { failed, InterruptCode, silent } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { note, Output } from "./Output.ts"
import { Program } from "./Program.ts"
import * as QuietView from "./QuietView.ts"
import * as Session from "./Session.ts"
import * as StreamJsonView from "./StreamJsonView.ts"
import * as TextView from "./TextView.ts"
import * as Tooling from "./Tooling.ts"
import type * as View from "./View.ts"

type ChatFlags = Flags.Globals & Flags.Chat

const viewOf = ({ format, quiet }: ChatFlags, output: Output["Service"]): View.View => {
  if (format === "stream-json") return StreamJsonView.make(output)
  return quiet ? QuietView.make(output) : TextView.make(output)
}

/** What is known of the run so far, for an ending that comes early. */
interface Known {
  sessionId: string
  usage: Usage.Usage
  begun: boolean
}

const endingOf = (
  exit: Exit.Exit<RunResult, unknown>,
  { sessionId, usage }: Known,
  interruptCode: number
): View.Ending => {
  if (Exit.isSuccess(exit)) {
    const { value } = exit
    const early = value.exit === "interrupted_by_user" ? interruptCode : failed
    return {
      exitCode: isCompleted(value) ? 0 : early,
      sessionId: value.sessionId,
      text: value.text,
      usage: value.usage,
      error: Ending.reason(value)
    }
  }
  const { code, line } = Exit.hasInterrupts(exit)
    ? { code: interruptCode, line: Ending.interrupted(sessionId) }
    : ErrorLine.ofCause(exit.cause)
  return { exitCode: code, sessionId, text: "", usage, error: line }
}

/** Says so where nobody configured a model, and nobody asked for the stand-in either. */
const mention = Effect.fnUntraced(function*(flags: ChatFlags, { model }: Values) {
  const router = yield* ModelRouter
  const { provider } = yield* router.primary
  const isMeant = flags.script !== undefined || model.provider.toLowerCase() === provider || model.default === provider
  if (provider === Offline.route.provider && !isMeant) yield* note(`Note: ${Offline.notice}`)
})

/** The directory that a session was about, as long as it is there. */
const directoryOf = Effect.fnUntraced(function*({ known }: Session.Chosen) {
  const cwd = known?.cwd
  if (cwd === undefined) return undefined
  const fs = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(fs.exists(cwd), () => false)) return cwd
  yield* note(`Warning: the session's directory ${cwd} is gone: its tools work here`)
  return undefined
})

const converse = Effect.fnUntraced(function*(
  flags: ChatFlags,
  settings: Values,
  view: View.View,
  input: Pick<RunInput, "prompt" | "sessionId" | "cwd" | "onEvent">
) {
  const hooks = yield* Hooks
  const tools = yield* Tooling.select(flags, settings)
  yield* mention(flags, settings)
  view.prepare({ display: settings.display, live: !hooks.has("transform_llm_output") })
  return yield* Agent.run({
    ...input,
    tools,
    source: flags.source ?? (flags.oneshot ? "oneshot" : "cli"),
    maxIterations: settings.agent.maxTurns,
    streaming: settings.model.streaming && settings.display.streaming
  })
})

/** See the module. */
export const run = Effect.fnUntraced(function*(flags: ChatFlags, prompt: RunInput["prompt"]) {
  const output = yield* Output
  const program = yield* Program
  const interruptCode = yield* InterruptCode
  const view = viewOf(flags, output)
  const fresh = yield* Ids.makeSessionId
  const known: Known = { sessionId: fresh, usage: Usage.zero, begun: false }

  const begin = (model: string): Effect.Effect<void> => {
    if (known.begun) return Effect.void
    known.begun = true
    return view.begin({ model, sessionId: known.sessionId })
  }

  const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> => {
    let started: Effect.Effect<void> = Effect.void
    for (const event of events) {
      if (event._tag === "UsageReported") known.usage = Usage.add(known.usage, event.usage)
      if (event._tag === "RunStarted") started = output.err(`session_id: ${event.sessionId}\n`)
    }
    return Effect.andThen(started, view.events(events))
  }

  const work = Effect.gen(function*() {
    yield* output.protect
    const settings = yield* Settings
    const session = yield* Session.choose(flags, fresh)
    known.sessionId = session.id
    yield* begin(settings.model.default ?? Offline.route.model)
    const cwd = yield* directoryOf(session)
    return yield* converse(flags, settings, view, { prompt, sessionId: session.id, cwd, onEvent }).pipe(
      Effect.provide(program.layer(settings, flags))
    )
  }).pipe(Effect.provide(Config.layerAll(Flags.configOptions(flags))), Effect.scoped)

  const finish = (exit: Exit.Exit<RunResult, unknown>) =>
    Effect.gen(function*() {
      const ending = endingOf(exit, known, interruptCode())
      yield* begin(flags.model ?? "")
      yield* view.end(ending)
      if (ending.error !== undefined) yield* output.err(ErrorLine.render(ending.error))
      return ending.exitCode
    })

  const code = yield* Effect.uninterruptibleMask((restore) => Effect.flatMap(Effect.exit(restore(work)), finish))
  return code === 0 ? undefined : yield* silent(code)
})
