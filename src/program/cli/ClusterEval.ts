/**
 * Attempts of `hermes eval run --cluster`: a runner asks the agent of the submission and scores its answers.
 *
 * Answers are scored on the runner and not where the report is made: the keys of judges are the runner's, judges work
 * in parallel on all machines, and a stored outcome contains the verdict, so that no judge is asked twice when the
 * submitting process is killed. The commands of scorers must exist on the runners.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Digest from "../../base/platform/Digest.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import { CommandEnvironment, layerLocal } from "../../places/CommandEnvironment.ts"
import * as BatchRow from "../../research/batch/BatchRow.ts"
import * as EvalAnswer from "../../research/eval/EvalAnswer.ts"
import * as EvalRun from "../../research/eval/EvalRun.ts"
import * as Scorer from "../../research/eval/Scorer.ts"
import type { Limits } from "../../agent/Budget.ts"
import * as ClusterAgents from "./ClusterAgents.ts"
import type { RowKind, RowStart } from "./ClusterRows.ts"
import type { RowSubmitter } from "./ClusterSubmission.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"

/** Kind of the requests for attempts of evaluations. */
export const kind = "evaluation attempt"

const version = 1

const Input = Schema.Struct({
  attempt: Schema.Struct({
    id: Schema.String,
    digest: Schema.String,
    number: Schema.Int,
    turns: Schema.Array(Schema.String),
    row: Schema.Struct({
      id: Schema.String,
      index: Schema.Int,
      digest: Schema.String,
      file: Schema.String,
      line: Schema.Int,
      fields: Schema.Record(Schema.String, Schema.Unknown)
    })
  }),
  rules: Schema.Struct({
    scorers: Schema.Array(
      Schema.Struct({ kind: Schema.Literals(Scorer.kinds), option: Schema.optionalKey(Schema.String) })
    ),
    judges: Schema.Array(
      Schema.Struct({
        name: Schema.String,
        route: Schema.Struct({ model: Schema.optionalKey(Schema.String), provider: Schema.optionalKey(Schema.String) })
      })
    ),
    criteria: Schema.optionalKey(Schema.String),
    promptField: Schema.String,
    referenceField: Schema.optionalKey(Schema.String),
    labelField: Schema.String,
    runs: Schema.Int,
    commandSeconds: Schema.Finite
  }),
  budget: Schema.optionalKey(
    Schema.Struct({ tokens: Schema.optionalKey(Schema.Int), dollars: Schema.optionalKey(Schema.Finite) })
  ),
  seed: Schema.optionalKey(Schema.Int)
})
type Input = typeof Input.Type

/** Opens the environment of the commands of scorers. Other scorers start no commands. */
const openEnvironment = ({ rules: { scorers } }: Input, { opened: { settings } }: RowStart) =>
  scorers.some((spec) => spec.kind === "command")
    ? RunnerRuntime.openEnvironment(settings)
    : Effect.map(Effect.context<CommandEnvironment>(), (context) => Context.get(context, CommandEnvironment)).pipe(
        Effect.provide(layerLocal)
      )

/** Attempts of evaluations. */
export const rowKind: RowKind<Input> = {
  kind,
  versions: [version],
  getRuntime: () => ({ setup: "workspaces" }),
  decode: Schema.decodeUnknownEffect(Input),
  run: Effect.fnUntraced(function* (input, start) {
    const { attempt, budget, rules, seed } = input
    const { opened, sessionId } = start
    const paths = yield* Path.Path
    const tools = yield* ClusterAgents.selectTools(opened)
    const directory = paths.join(start.folder, "eval", Digest.toHex(sessionId, 32))
    const services = yield* Effect.context<Effect.Services<ReturnType<typeof EvalAnswer.ask>>>()
    const askModel: EvalRun.Subject["ask"] = (prompt, { turns }, tell) =>
      EvalAnswer.ask(
        [prompt, ...turns],
        {
          tools,
          budget,
          seed,
          maxIterations: opened.settings.agent.maxTurns,
          approvals: opened.settings.approvals.unattendedMode,
          session: { sessionId, directory, goesOn: start.goesOn }
        },
        tell
      ).pipe(Effect.provideContext(services))
    const auxiliary = Context.get(opened.services, Auxiliary)
    const environment = yield* openEnvironment(input, start)
    return yield* EvalRun.runAttempt(
      { ask: askModel, auxiliary },
      attempt,
      { ...rules, criteria: rules.criteria, referenceField: rules.referenceField },
      () => Effect.void
    ).pipe(Effect.provideService(CommandEnvironment, environment))
  })
}

/** Options of the attempts that are submitted. */
export interface Options {
  readonly budget: Pick<Limits, "dollars" | "tokens"> | undefined
  readonly getSeed: ((attempt: EvalRun.Attempt) => number) | undefined
}

/** Creates the subject whose attempts are submitted to the runners. */
export const makeSubject = ({ prefix, submit }: RowSubmitter, { budget, getSeed }: Options): EvalRun.RemoteSubject => ({
  submit: (attempt, rules, { number }) =>
    Effect.gen(function* () {
      const name = `${BatchRow.formatRowName(attempt.row)}.${attempt.number}`
      const seed = getSeed?.(attempt)
      return yield* submit({
        name,
        attempt: number,
        version,
        sessionId: `${yield* prefix}-${name}-${number}`,
        // Members without a value are left out of the JSON text.
        input: { attempt, rules, budget, seed }
      })
    })
})
