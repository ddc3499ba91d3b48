// `npm run api`: writes the public surface of the package to `test/api.md`, which is reviewed with every change.
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { surface } from "./support/api.ts"
import { root } from "./support/sources.ts"

writeFileSync(join(root, "test/api.md"), surface())
