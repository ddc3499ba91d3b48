/**
 * The one way from a path that a model wrote to a path that a tool may touch: `~` expanded, relative to the call's
 * directory, normalised, symbolic links followed, judged by the {@link Fence}.
 *
 * Source: `hermes-llm.md` §19.6.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { ToolContext } from "../../ToolContext.ts"
import { canonical, expandHome, Places } from "./Places.ts"
import * as Fence from "./Fence.ts"
import * as Problem from "./Problem.ts"

const maxPathChars = 4_096

/** Access to a file. `edit` shows what it held, so it must be readable too. */
type Access = "read" | "write" | "edit"

/** A file that may be touched. */
export interface Target {
  /** As the model wrote it. */
  readonly given: string
  /** Absolute and normalised. */
  readonly path: string
  /** Absolute, symbolic links followed: what is opened, written and remembered. */
  readonly real: string
}

type Resolved<A> = Effect.Effect<A, Problem.Problem | PlatformError, ToolContext>

/** The one way from a path that a model wrote to a path that a tool may touch. */
interface Service {
  /** The file that a path means, or why it is left alone. */
  readonly resolve: (given: string, access: Access) => Resolved<Target>
  /** Why a file that was found at a real path is left alone, if it is. Pure. */
  readonly deniedRead: (real: string) => Fence.Denial | undefined
}

/** The one way from a path that a model wrote to a path that a tool may touch. */
export class Targets extends Context.Service<Targets, Service>()("hermes-effect/tool/Targets") {
  /** Over the file system and the machine's {@link Places}. */
  static readonly layer: Layer.Layer<Targets, never, FileSystem.FileSystem | Path.Path | Places> = Layer.effect(
    Targets,
    Effect.gen(function*() {
      const path = yield* Path.Path
      const places = yield* Places
      const files = yield* Effect.context<FileSystem.FileSystem | Path.Path>()

      const slashed = (name: string): string => path.sep === "/" ? name : name.replaceAll(path.sep, "/")
      const judge = (name: string, access: Access): Fence.Denial | undefined =>
        (access === "write" ? undefined : Fence.judgeRead(slashed(name), places)) ??
          (access === "read" ? undefined : Fence.judgeWrite(slashed(name), places))

      const resolve: Service["resolve"] = Effect.fnUntraced(function*(given, access) {
        if (given.trim() === "") return yield* Problem.fail("the path is empty")
        if (given.length > maxPathChars) return yield* Problem.fail(`the path has more than ${maxPathChars} characters`)
        if (given.includes("\0")) return yield* Problem.fail("the path has a NUL character in it")
        const { cwd } = yield* ToolContext
        const literal = path.resolve(cwd, expandHome(given, places.home))
        const refuse = ({ reason, advice }: Fence.Denial) =>
          Problem.fail(`${given} is not ${access === "read" ? "read" : "written"}: ${reason}`, { hint: advice })
        const denied = judge(literal, access)
        if (denied !== undefined) return yield* refuse(denied)
        const real = yield* Effect.provideContext(canonical(literal), files)
        const deniedReal = real === literal ? undefined : judge(real, access)
        if (deniedReal !== undefined) return yield* refuse(deniedReal)
        return { given, path: literal, real }
      })

      return { resolve, deniedRead: (real) => Fence.judgeRead(slashed(real), places) }
    })
  )
}
