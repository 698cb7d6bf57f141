import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { Construct } from 'constructs';

export interface VersionControlProps {
  /** Folder of an unpacked release archive, `version-control-…`, `version-control-attach-…` or `version-control-seal-…`. */
  readonly archive: string;
  /** Parameters of the template by name, such as `{ VersionDigits: 10 }`. An unknown name is an error. */
  readonly parameters?: Record<string, string | number>;
}

/** The stack of a release archive. A stack can contain one, because the template's logical IDs stay as they are. */
export declare class VersionControl extends Construct {
  /** The included template, for access to its resources. */
  readonly include: CfnInclude;
  constructor(scope: Construct, id: string, props: VersionControlProps);
  /** Returns the value of an output of the template, such as `UpdatesQueueUrl`. */
  output(name: string): any;
}
