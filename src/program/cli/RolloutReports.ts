/**
 * Actions of `hermes rl` that only read: they show environments, check keys and servers, and list and export stored
 * episodes.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { RolloutPort, type RolloutRefused } from "../../base/domain/RolloutPort.ts"
import * as Atropos from "../../research/rollout/Atropos.ts"
import * as EnvironmentCatalogue from "../../research/rollout/EnvironmentCatalogue.ts"
import * as EpisodeExport from "../../research/rollout/EpisodeExport.ts"
import * as Episodes from "../../research/rollout/Episodes.ts"
import * as EpisodeStore from "../../research/rollout/EpisodeStore.ts"
import * as RolloutModel from "../../research/rollout/RolloutModel.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { failed, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import * as OutputFile from "./OutputFile.ts"
import { printJson, printLine, printNote } from "./ProgramOutput.ts"
import { Program } from "./Program.ts"
import * as SafeText from "./render/SafeText.ts"

/** Prints the available environments. */
export const listEnvironments = Effect.fn("hermes lab rl environments")(function* ({
  json
}: {
  readonly json: boolean
}) {
  const { list } = EnvironmentCatalogue
  if (json) return yield* printLine(SafeText.toJson(list, 2))
  for (const { description, name } of list) yield* printLine(`${name.padEnd(12)}${description}`)
  yield* printNote("A dataset (tasks.jsonl) or a module (./env.ts#name) is named by its path.")
})

/** A finding of the check. */
interface Finding {
  readonly what: string
  readonly isFine: boolean
  readonly text: string
}

const checkKeys = (environment: Environment["Service"]): ReadonlyArray<Finding> =>
  ["TINKER_API_KEY", "WANDB_API_KEY"].map((name) => {
    const isSet = (environment.get(name) ?? "") !== ""
    return { what: name, isFine: true, text: isSet ? "set" : "not set (only needed for your own service)" }
  })

/** Requests one word from the model, and checks which token data came with the answer. */
const probeTokens = Effect.fnUntraced(function* (settings: Values, script: string | undefined) {
  const program = yield* Program
  const layer = RolloutModel.layer({ defaults: { sampling: { max_tokens: 16 } } }).pipe(
    Layer.provideMerge(Episodes.layer),
    Layer.provide(EpisodeStore.layerMemory),
    Layer.provideMerge(program.layer(settings, { script, ignoreRules: true }))
  )
  return yield* Effect.scoped(
    Effect.gen(function* () {
      const context = yield* Layer.build(layer)
      const port = Context.get(context, RolloutPort)
      const { rolloutId } = yield* port.chat(undefined, {
        messages: [{ role: "user", content: "Reply exactly hello" }]
      })
      const view = yield* port.view(rolloutId)
      return { model: yield* port.model, reason: view.not_trainable, tokens: view.trained_tokens }
    })
  )
})

/** Checks keys, the model's server and an Atropos API. */
export const check = Effect.fn("hermes rl check")(function* ({
  atropos,
  script
}: {
  readonly atropos: string | undefined
  readonly script: string | undefined
}) {
  const environment = yield* Environment
  const { settings } = yield* Config.load(Flags.toConfigOptions(yield* hermes))
  const model: Finding = yield* probeTokens(settings, script).pipe(
    Effect.map(({ model, reason, tokens }) => ({
      what: "model",
      isFine: reason === null,
      text:
        reason === null
          ? `${model} returns token ids (${tokens} sampled)`
          : `${model} answers, but ${reason.replace(" (call 1)", "")}`
    })),
    Effect.catch((error) => Effect.succeed({ what: "model", isFine: false, text: error.message }))
  )
  const server: ReadonlyArray<Finding> =
    atropos === undefined
      ? []
      : [
          yield* Effect.scoped(
            Effect.gen(function* () {
              const client = yield* Atropos.make(atropos)
              yield* client.check
              const { current_step: step, queue_size: waiting } = yield* client.status
              return {
                what: "atropos",
                isFine: true,
                text: `${client.url} is at step ${step}, ${waiting} groups are waiting`
              }
            })
          ).pipe(Effect.catch(({ message }) => Effect.succeed({ what: "atropos", isFine: false, text: message })))
        ]
  const findings = [model, ...server, ...checkKeys(environment)]
  for (const { isFine, text, what } of findings)
    yield* printLine(`${isFine ? "ok  " : "FAIL"} ${what.padEnd(15)} ${SafeText.toLine(text)}`)
  if (findings.some(({ isFine }) => !isFine)) return yield* makeSilentFailure(failed)
}, Effect.provide(CommandSettings.surroundings))

/** Reference to the directory of episodes. */
interface RolloutsReference {
  readonly rollouts: string | undefined
}

const withEpisodes = <A, R>({ rollouts }: RolloutsReference, work: Effect.Effect<A, RolloutRefused, R>) =>
  Effect.gen(function* () {
    const home = yield* Home
    const paths = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const given = rollouts === undefined ? paths.join(home.root, "rollouts") : paths.resolve(rollouts)
    // The output directory of a run contains an `episodes` directory.
    const below = paths.join(given, "episodes")
    const directory = (yield* Effect.orElseSucceed(fs.exists(below), () => false)) ? below : given
    if (rollouts !== undefined && !(yield* Effect.orElseSucceed(fs.exists(directory), () => false)))
      return yield* makeUsageFailure(`${given}: no such directory`)
    return yield* Effect.provide(work, Episodes.layer.pipe(Layer.provide(EpisodeStore.layerDirectory(directory))))
  }).pipe(
    Effect.catchTag("RolloutRefused", ({ message, reason }) =>
      Effect.fail(reason === "unknown_rollout" ? makeUsageFailure(message) : makeWorkFailure(message))
    )
  )

const read = Effect.gen(function* () {
  const episodes = yield* Episodes.Episodes
  return yield* Effect.forEach(yield* episodes.ids, episodes.get)
})

/** Prints the stored episodes. */
export const list = Effect.fn("hermes lab rl list")(function* ({
  json,
  ...stored
}: RolloutsReference & { readonly json: boolean }) {
  const views = yield* withEpisodes(
    stored,
    Effect.map(read, (all) => all.map(EpisodeExport.toView))
  )
  if (json) return yield* printLine(SafeText.toJson(views, 2))
  if (views.length === 0)
    return yield* printLine(
      "No rollouts of `hermes serve`. List the rollouts of a run with --rollouts data/rl/ENVIRONMENT, or " +
        "create some with `hermes lab rl rollout arithmetic`."
    )
  for (const { calls, not_trainable: reason, reward, rollout_id: id, status, trained_tokens: tokens } of views) {
    const facts = [
      status,
      `${calls} ${calls === 1 ? "call" : "calls"}`,
      `reward ${reward ?? "-"}`,
      reason === null ? `${tokens} tokens` : "no tokens"
    ]
    yield* printLine(`${SafeText.toLine(id)}\n  ${facts.join(", ")}`)
  }
}, Effect.provide(CommandSettings.surroundings))

/** Exports the stored episodes. */
export const exportRollouts = Effect.fn("hermes rl export")(function* ({
  format,
  output,
  ...stored
}: RolloutsReference & {
  readonly format: "groups" | "episodes" | "messages" | undefined
  readonly output: string | undefined
}) {
  const all = yield* withEpisodes(stored, read)
  const { addAdvantages, toGroup, toScoredEpisode, toSupervised } = EpisodeExport
  const results = addAdvantages(all).map((episode) => ({ episode, result: toScoredEpisode(episode) }))
  const trainable = results.flatMap(({ result }) => (result._tag === "Success" ? [result.success] : []))
  const refused = results.flatMap(({ result }) => (result._tag === "Failure" ? [result.failure.message] : []))
  const groups = Array.from(Map.groupBy(trainable, ({ group_id }) => group_id).values(), toGroup)
  const lines = format === "messages" ? all.map(toSupervised) : format === "episodes" ? trainable : groups
  if (format !== "messages") {
    for (const message of refused.slice(0, 5)) yield* printNote(`Left out: ${message}`)
    if (refused.length > 5) yield* printNote(`Left out: ${refused.length - 5} more`)
  }
  if (lines.length === 0)
    return yield* makeWorkFailure("nothing can be exported: --format messages exports rollouts without tokens")
  const text = lines.map((one) => `${JSON.stringify(one)}\n`).join("")
  if (output === undefined) return yield* printJson(text)
  yield* OutputFile.write(output, text)
  yield* printLine(`${lines.length} ${format ?? "groups"} in ${output}`)
}, Effect.provide(CommandSettings.surroundings))
