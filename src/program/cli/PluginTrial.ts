/**
 * Loads one plugin from its folder in a temporary home directory, for `hermes plugins check` and `hermes plugins test`.
 * The home directory of the user is not read and not written.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { Candidate } from "../../agent/plugin/Candidate.ts"
import * as Directories from "../../agent/plugin/Directories.ts"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home, make as makeEnvironment, ProcessVariables } from "../../base/config/Environment.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import * as Json from "../../base/domain/Json.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { withoutSandbox } from "../../tools/ConfiguredEnvironment.ts"
import { makeUsageFailure } from "./Failure.ts"
import { Program, type Service as ProgramService } from "./Program.ts"

/** A plugin in a folder that the command line names. */
export interface PluginFolder {
  /** Real path of the folder. */
  readonly directory: string
  readonly candidate: Candidate
  readonly module: string
  /** Warnings about the manifest. */
  readonly warnings: ReadonlyArray<string>
}

/**
 * Finds the plugin in a folder: a path, or the name of a plugin in the user's directory. The working directory if no
 * folder is given.
 */
export const findFolder = Effect.fnUntraced(function* (given: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const home = yield* Home
  const places = [
    paths.resolve(getWorkingDirectory(), given ?? "."),
    ...(given === undefined ? [] : [paths.join(home.plugins, given)])
  ]
  const found = yield* Effect.forEach(places, (place) => Effect.option(fs.realPath(place)))
  const [directory] = found.flatMap((place) => (Option.isSome(place) ? [place.value] : []))
  if (directory === undefined)
    return yield* makeUsageFailure(`there is no folder ${places[0]}: pass the folder of a plugin, or its name`)
  const read = yield* Effect.mapError(Directories.readPluginDirectory(directory, "user", undefined), ({ message }) =>
    makeUsageFailure(message)
  )
  if (Option.isNone(read))
    return yield* makeUsageFailure(
      `${directory} is not a plugin: it has no plugin.yaml. Write one with \`name: ${paths.basename(directory)}\`, or ` +
        "create a plugin with `hermes plugins new`"
    )
  const { candidate, warnings } = read.value
  const module = candidate.origin._tag === "Directory" ? candidate.origin.module : undefined
  if (module === undefined)
    return yield* makeUsageFailure(`${directory} has no module: write one of ${Directories.modules.join(", ")}`)
  return { directory, candidate, module, warnings } satisfies PluginFolder
})

/** Options of a trial. */
interface TrialOptions {
  /** `link` loads the files in place. `copy` loads a copy, so that each trial has new modules. */
  readonly files: "link" | "copy"
  /** Value of `plugins.entries.<key>`. */
  readonly config: Readonly<Record<string, unknown>>
  /** Other content of `config.yaml`. */
  readonly settings?: Readonly<Record<string, unknown>> | undefined
}

type Runtime = ReturnType<ProgramService["layer"]>

/** A temporary home directory with one plugin. */
export interface Trial {
  /** Root of the home directory. */
  readonly home: string
  /** Empty directory for the tools. */
  readonly work: string
  readonly makeLayer: (
    start: Parameters<ProgramService["layer"]>[1]
  ) => Layer.Layer<Layer.Success<Runtime>, Layer.Error<Runtime>>
  /** Returns the warnings since the start. */
  readonly warnings: () => ReadonlyArray<string>
}

const isOwnVariable = (name: string): boolean => name.startsWith("HERMES_")

/** Copies a plugin. Its installed packages are linked. */
const copyPlugin = Effect.fnUntraced(function* (directory: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* fs.makeDirectory(to, { recursive: true })
  for (const name of yield* fs.readDirectory(directory)) {
    if (name === ".git") continue
    const from = paths.join(directory, name)
    yield* name === "node_modules" ? fs.symlink(from, paths.join(to, name)) : fs.copy(from, paths.join(to, name))
  }
})

/** Creates the home directory of a trial. It is removed when the scope closes. */
export const makeTrial = Effect.fnUntraced(function* (
  { candidate, directory }: PluginFolder,
  { config, files, settings }: TrialOptions
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const program = yield* Program
  const root = yield* fs.realPath(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-plugin-" }))
  const home = paths.join(root, "home")
  const work = paths.join(root, "work")
  const place = paths.join(home, "plugins", paths.basename(directory))
  yield* fs.makeDirectory(paths.dirname(place), { recursive: true })
  yield* fs.makeDirectory(work)
  yield* files === "link" ? fs.symlink(directory, place) : copyPlugin(directory, place)
  const { render } = yield* Yaml.load
  const plugins: unknown = settings?.["plugins"]
  const text = render({
    ...settings,
    plugins: {
      ...(Json.isFields(plugins) ? plugins : {}),
      enabled: [candidate.key],
      entries: { [candidate.key]: config }
    }
  })
  yield* fs.writeFileString(paths.join(home, "config.yaml"), text)
  const variables = Object.fromEntries(Object.entries(yield* ProcessVariables).filter(([name]) => !isOwnVariable(name)))
  const surroundings = Layer.merge(Home.layerAt(home), Layer.succeed(Environment, makeEnvironment(variables)))
  const platform = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const warnings: Array<string> = []
  const logger = Logger.layer([
    Logger.make<unknown, void>(({ logLevel, message }) => {
      if (logLevel !== "Warn" && logLevel !== "Error" && logLevel !== "Fatal") return
      const text = (Array.isArray(message) ? message : [message]).map(Json.toText).join(" ")
      // A machine without a sandbox is no fault of the plugin.
      if (!text.startsWith(withoutSandbox)) warnings.push(text)
    })
  ])
  const loaded = yield* Config.load().pipe(
    Effect.provide(surroundings),
    Effect.provideService(ProcessVariables, variables)
  )
  const makeLayer: Trial["makeLayer"] = (start) =>
    program
      .layer(loaded.settings, { ...start, ignoreRules: true, folder: work })
      .pipe(
        Layer.provide(surroundings),
        Layer.provideMerge(logger),
        Layer.provide(Layer.succeed(ProcessVariables, variables)),
        Layer.provide(Layer.succeedContext(platform))
      )
  return { home, work, makeLayer, warnings: () => warnings } satisfies Trial
})
