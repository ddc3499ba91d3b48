import * as Effect from "effect/Effect"
import * as Config from "../../src/config/Config.ts"
import { Settings } from "../../src/config/Settings.ts"

/** How things are shown when nobody says otherwise. */
export const { display } = Effect.runSync(Effect.provide(Settings, Config.layerFromFile()))
