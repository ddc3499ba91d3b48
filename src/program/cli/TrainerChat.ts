/**
 * Action of `hermes rl train`: the agent of `hermes chat` with training tools and instructions, long timeouts and many
 * model calls. Training runs continue until they end or the program exits.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schedule from "effect/Schedule"
import type { AgentFile } from "../../base/config/AgentFile.ts"
import { Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as EnvironmentCatalogue from "../../research/rollout/EnvironmentCatalogue.ts"
import * as RolloutSettings from "../../research/rollout/RolloutSettings.ts"
import * as TrainingService from "../../research/rollout/TrainingService.ts"
import * as TrainingTools from "../../research/rollout/TrainingTools.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { makeUsageFailure } from "./Failure.ts"
import { hermes } from "./Hermes.ts"
import { printNote, Output } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import type { ChatFlags } from "./RunOptions.ts"
import * as RolloutRuns from "./RolloutRuns.ts"
import * as RunnerCommand from "./RunnerCommand.ts"

/** Flags of the command. */
interface TrainFlags {
  readonly task: Option.Option<string>
  readonly interactive: boolean
  readonly maxIterations: number | undefined
  readonly script: string | undefined
}

/** Creates the agent that trains, in the form of an agent file. */
const makeTrainerAgent = (iterations: number): AgentFile => {
  const { trainerPrompt, trainerTimeoutSeconds, trainerToolsets } = RolloutSettings
  const name = "hermes rl train"
  return {
    file: { name, folder: getWorkingDirectory(), text: Effect.succeed("") },
    name: "rl",
    description: undefined,
    systemPrompt: undefined,
    systemPromptSuffix: trainerPrompt,
    settings: [
      { name, key: "agent.max_turns", value: iterations },
      { name, key: "terminal.timeout", value: trainerTimeoutSeconds }
    ],
    temperature: undefined,
    tools: trainerToolsets,
    middlewares: [],
    subAgents: []
  }
}

/** Creates the default service, which records rollouts in the home directory. */
const makeRecorder = (script: string | undefined) =>
  Effect.gen(function* () {
    const home = yield* Home
    const paths = yield* Path.Path
    const settings = yield* RolloutRuns.rolloutSettings
    const { safeMode } = yield* hermes
    const needs = yield* Effect.context<
      Effect.Services<ReturnType<typeof RolloutRuns.rollOut>> | FolderTrust.FolderTrust
    >()
    const rollOut: Parameters<typeof TrainingService.layerRecorder>[0]["rollOut"] = (config, directory, onGroup) =>
      Effect.scoped(
        Effect.flatMap(EnvironmentCatalogue.find(config.environment), ({ environment }) =>
          RolloutRuns.rollOut({
            environment,
            directory,
            settings,
            script,
            safeMode,
            atropos: undefined,
            savesTrajectories: true,
            options: {
              groups: config.total_steps,
              groupSize: config.group_size,
              maxAgentTurns: config.max_agent_turns,
              sampling: { temperature: config.temperature },
              stepsPerEvaluation: config.steps_per_eval,
              onGroup
            }
          })
        )
      ).pipe(Effect.provideContext(needs))
    const built = yield* Layer.build(
      TrainingService.layerRecorder({
        directory: paths.join(home.root, "training"),
        environments: EnvironmentCatalogue.list,
        rollOut
      })
    )
    return Context.get(built, TrainingService.TrainingService)
  })

type Training = Context.Service.Shape<typeof TrainingService.TrainingService>

/** Adds the toolset `rl` to the program's own toolsets. */
const withTools = (program: Program["Service"], service: Training): Program["Service"] => ({
  layer: (settings, start) =>
    Layer.effectDiscard(Effect.flatMap(ToolRegistry, ({ register }) => register(TrainingTools.toolset))).pipe(
      Layer.provide(Layer.succeed(TrainingService.TrainingService, service)),
      Layer.provideMerge(program.layer(settings, start))
    )
})

const checkEvery = "5 seconds"

/** Waits for the training runs that are still running when the agent ends. */
const waitForTrainingRuns = Effect.fnUntraced(function* (service: Training) {
  const running = (yield* service.runs).filter(({ status }) => status === "running")
  if (running.length === 0) return
  yield* printNote(
    `${running.length === 1 ? "A training run continues" : `${running.length} training runs continue`}; ` +
      "press Ctrl+C to stop"
  )
  yield* service.runs.pipe(
    Effect.repeat({
      until: (runs) => runs.every(({ status }) => status !== "running"),
      schedule: Schedule.spaced(checkEvery)
    }),
    Effect.delay(checkEvery)
  )
  for (const { directory, run_id: id, status } of yield* service.runs) yield* printNote(`${id} ${status}: ${directory}`)
})

/** Runs the agent on a task, or in a conversation. */
export const train = Effect.fn("hermes rl train")(
  function* ({ interactive, maxIterations, script, task }: TrainFlags) {
    const query = Option.getOrUndefined(task)
    const { terminal } = yield* Output
    yield* RunnerCommand.checkCounts({ "max-iterations": maxIterations })
    if (interactive && query !== undefined)
      return yield* makeUsageFailure("--interactive starts a conversation: leave out the task")
    if (!interactive && (query === undefined || query.trim() === "")) {
      return yield* makeUsageFailure(
        "hermes lab rl train needs a task in quotes, or --interactive: hermes lab rl train 'Train on arithmetic and judge it'"
      )
    }
    if (interactive && !terminal.input)
      return yield* makeUsageFailure("Not a terminal. Pass a task instead of --interactive.")
    const service = yield* makeRecorder(script)
    const missing = yield* service.missingKeys
    if (missing.length > 0)
      return yield* makeUsageFailure(
        `${service.name} needs keys that are not set: ${missing.join(", ")}. Set them in the environment or in .env.`
      )
    if (service.notice !== "") yield* printNote(`Note: ${service.notice}`)
    const program = withTools(yield* Program, service)
    const iterations = maxIterations ?? RolloutSettings.trainerIterations
    const flags: ChatFlags = {
      ...(yield* hermes),
      query,
      queryFile: undefined,
      answered: false,
      image: undefined,
      skills: [],
      agent: undefined,
      quiet: false,
      plain: false,
      format: undefined,
      maxTurns: iterations,
      runBudget: undefined,
      source: "rl",
      usageFile: undefined,
      outputSchema: undefined,
      outputLastMessage: undefined,
      oneshot: false,
      oneshotPrompt: undefined,
      script,
      record: undefined,
      replay: undefined,
      agentFile: makeTrainerAgent(iterations)
    }
    const chat =
      query === undefined
        ? Effect.flatMap(
            Effect.promise(() => import("./InteractiveChat.ts")),
            ({ run }) => run(flags)
          )
        : Effect.flatMap(
            Effect.promise(() => import("./SingleQuery.ts")),
            ({ run }) => run(flags, query)
          )
    yield* Effect.provideService(chat, Program, program)
    yield* waitForTrainingRuns(service)
  },
  Effect.scoped,
  Effect.provide(FolderTrust.layer),
  Effect.provide(CommandSettings.surroundings)
)
