/* augmentation.c: from the settings of augmentation to the transform that `load` takes, and what of them does not go
 * together. See augmentation.h. */
#include "settings/augmentation.h"

enum ls_status ls__augmentation_check(const struct ls_train_options *o)
{
    if (o->resized_crop > 0 && o->crop_pad > 0)
        return ls_fail(LS_USAGE, "--resized-crop and --crop-pad both choose a part of the image; give one of them");
    return LS_OK;
}

struct ls_transform ls__augmentation_of(const struct ls_train_options *o)
{
    return (struct ls_transform){.crop_pad = (int)o->crop_pad,
                                 .flip = o->flip,
                                 .cutout = (int)o->cutout,
                                 .resized_crop = (float)o->resized_crop,
                                 .brightness = (float)o->brightness,
                                 .contrast = (float)o->contrast,
                                 .saturation = (float)o->saturation,
                                 .hue = (float)o->hue,
                                 .erasing = (float)o->erasing,
                                 .mixup = (float)o->mixup,
                                 .cutmix = (float)o->cutmix};
}

bool ls__augmentation_is_on(const struct ls_train_options *o)
{
    const struct ls_transform t = ls__augmentation_of(o);
    return t.crop_pad > 0 || t.flip || t.cutout > 0 || ls_transform_beyond_crops(&t) != NULL;
}
