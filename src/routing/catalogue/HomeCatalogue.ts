/**
 * The catalogue of a program: over its settings, with what its home directory remembers, asking who serves a model.
 *
 * Source: `hermes-llm.md` §10.1.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import { Home } from "../../config/Home.ts"
import { Settings } from "../../config/Settings.ts"
import * as Catalogue from "../Catalogue.ts"
import * as ContextWindow from "../ContextWindow.ts"
import * as EndpointMemory from "./EndpointMemory.ts"
import * as ModelLists from "./ModelLists.ts"

/** The catalogue of a program. Nothing is read or asked before it is wanted; the scope ends what is still being asked. */
export const make = Effect.fnUntraced(function*(
  home: string,
  settings: Catalogue.Options["settings"],
  endpoints: EndpointMemory.EndpointMemory
): Effect.fn.Return<Catalogue.Service, never, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const { get, post } = yield* ModelLists.lazy
  return Catalogue.make({
    settings,
    windows: yield* ContextWindow.file(home),
    lists: yield* ModelLists.make(home, get),
    get,
    post,
    endpoints,
    scope: yield* Effect.scope
  })
})

/** {@link make} for the settings and the home directory of the surroundings. */
export const layer: Layer.Layer<Catalogue.Catalogue, never, Settings | Home | FileSystem.FileSystem | Path.Path> = Layer
  .effect(
    Catalogue.Catalogue,
    Effect.gen(function*() {
      const { root } = yield* Home
      return yield* make(root, yield* Settings, yield* EndpointMemory.file(root))
    })
  )
