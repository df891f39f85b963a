"""Reading and building configs, with mmdet or mmseg as they require."""
