/**
 * The catalogue of a program: over its settings, with what its home directory remembers, asking who serves a model.
 *
 * Source: `hermes-llm.md` §10.1.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import * as HttpClient from "effect/http/HttpClient"
import { Home } from "../../config/Home.ts"
import { Settings } from "../../config/Settings.ts"
import { Catalogue, make } from "../Catalogue.ts"
import * as ContextWindow from "../ContextWindow.ts"
import * as AskJson from "./AskJson.ts"
import * as ModelLists from "./ModelLists.ts"

/** See the module. Nothing is read or asked before it is wanted. */
export const layer: Layer.Layer<
  Catalogue,
  never,
  Settings | Home | HttpClient.HttpClient | FileSystem.FileSystem | Path.Path
> = Layer.effect(
  Catalogue,
  Effect.gen(function*() {
    const client = yield* HttpClient.HttpClient
    const { root } = yield* Home
    const get = AskJson.getJson(client)
    return make({
      settings: yield* Settings,
      windows: yield* ContextWindow.file(root),
      lists: yield* ModelLists.make(root, get),
      get,
      post: AskJson.postJson(client)
    })
  })
)
