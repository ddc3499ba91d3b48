/**
 * Notice about plugins that `--ignore-user-config` leaves out: the user's plugins are enabled in the file that is ignored. Who counts on traces is told
 * that there are none.
 *
 * Source: the NeMo Relay document, `hermes-product.md` §1.1.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as Config from "../config/Config.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { bundled } from "../observability/Bundled.ts"
import * as Discovery from "../plugin/Discovery.ts"
import * as Enablement from "../plugin/Enablement.ts"
import { workingDirectory } from "./internal/machine.ts"
import { note, type Output } from "./ProgramOutput.ts"

const category = "observability/"

const lost = Effect.gen(function*() {
  const home = yield* Home
  const { get } = yield* Environment
  const { settings: { plugins } } = yield* Config.load()
  const { candidates } = yield* Discovery.discover({
    bundled,
    user: home.plugins,
    cwd: workingDirectory(),
    packages: plugins.packages,
    variable: get
  })
  return candidates.filter((candidate) =>
    candidate.key.startsWith(category) && Enablement.decide(candidate, plugins)._tag === "Load")
}).pipe(Effect.provide(Layer.provideMerge(Environment.layer, Home.layer)))

/** Says on stderr which plugins that export what happens are left out. */
export const tell: Effect.Effect<void, never, FileSystem.FileSystem | Output | Path.Path> = lost.pipe(
  // The file is ignored, maybe because it cannot be read.
  Effect.orElseSucceed(() => []),
  Effect.flatMap((candidates) =>
    candidates.length === 0
      ? Effect.void
      : note(
        `Warning: --ignore-user-config leaves out ${candidates.map(({ key }) => key).join(", ")}: ` +
          "this run is not exported; enable them in the config.yaml of another HERMES_HOME"
      )
  )
)
