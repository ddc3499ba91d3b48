import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import { Settings } from "../../../src/base/config/Settings.ts"

/** How things are shown when nobody says otherwise. */
export const { display } = Effect.runSync(Effect.provide(Settings, Config.layerFromFile()))
