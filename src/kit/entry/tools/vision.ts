/** The tool that examines images, and the side-task models that it uses. */
export * as SideModel from "../../../tools/builtin/SideModel.ts"
export * as Vision from "../../../tools/builtin/Vision.ts"
